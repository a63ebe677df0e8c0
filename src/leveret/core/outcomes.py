"""What becomes of messages, by one definition for counters, alerts, metrics and the reports on history.

done      left its queue by one of ACKED
dead      left its queue by one of DEATHS, and the queue has a dead-letter exchange; without one it was discarded
failed    a delivery that ended otherwise than by an acknowledgement, by what its consumer did or did not do
waiting   may be delivered now: neither unacked nor held back until later (delayed, backing off)
depth     not settled: waiting, unacked or held back
lag       of a consumer group of a stream: records behind its end
"""

from leveret.core.policy import QueuePolicy

ACKED = ("acked", "auto_acked")
DEATHS = ("rejected", "expired", "maxlen", "delivery_limit")
FAILED_COUNTERS = ("rejected", "nacked", "timed_out")
"""Failed deliveries by counters of a queue: what the delivery limit ends was given back, and is counted there."""
FAILED_REASONS = {"settled": ("rejected", "delivery_limit"), "returned": ("nacked", "timed_out")}
"""The same by events of the journal, where the last delivery that the limit allows ends in `delivery_limit` alone."""


def keeps_dead(policy: QueuePolicy) -> bool:
    """Whether what dies in a queue becomes a dead letter."""
    return policy.dead_letter_exchange is not None
