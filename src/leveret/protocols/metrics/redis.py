"""Figures of the Redis that nodes share things by; nothing is said where there is none."""

from leveret.observability.exposition import labels
from leveret.protocols.metrics.facts import ScrapeFacts
from leveret.protocols.metrics.figure import Told, figure
from leveret.runtime.shared.keys import USES


def fallbacks(facts: ScrapeFacts) -> Told:
    """What was decided by this node alone."""
    if facts.redis is None:
        return None
    return {labels(use=use): facts.redis.fallbacks[use] for use in USES}


REDIS = (
    figure(
        "leveret_redis_up",
        "gauge",
        "1 while the Redis that nodes share limits by answers; no sample without one",
        lambda f: None if f.redis is None else int(f.redis.up),
    ),
    figure(
        "leveret_redis_errors_total",
        "counter",
        "Times that Redis did not answer, or with an error",
        lambda f: None if f.redis is None else f.redis.errors,
    ),
    figure(
        "leveret_redis_connections",
        "gauge",
        "Connections to Redis",
        lambda f: None if f.redis is None else f.redis.connections[0],
    ),
    figure(
        "leveret_redis_connections_in_use",
        "gauge",
        "Those with a round trip under way",
        lambda f: None if f.redis is None else f.redis.connections[1],
    ),
    figure(
        "leveret_redis_waits_total",
        "counter",
        "Questions that waited for the round trip of others",
        lambda f: None if f.redis is None else f.redis.waits,
    ),
    figure(
        "leveret_redis_reconnects_total",
        "counter",
        "Times that Redis answered again after it had been away",
        lambda f: None if f.redis is None else f.redis.reconnects,
    ),
    figure(
        "leveret_redis_fallbacks_total",
        "counter",
        "What a node decided by itself while Redis was away, by use",
        fallbacks,
    ),
)
