"""The cases: what is run, how often, and which figures come out of it."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.amqp.load import Options

Results = list[dict[str, Any]]
Figures = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """Steps run one after the other on a broker; `fresh`: on one that was started for them, for its memory."""

    name: str
    title: str
    steps: tuple[Options, ...]
    figures: Callable[[Results], Figures]
    fresh: bool = False
    on_disk: bool = False  # beside a bare loop of writes and syncs

    def option(self, name: str, default: int) -> int:
        """An option of the first step."""
        return int(self.steps[0].get(name, default))


def rates(results: Results) -> Figures:
    """Of traffic: messages and CPU."""
    (result,) = results
    return {
        "messages_per_s": round(result["messages_per_s"]),
        "published_per_s": round(result["published_per_s"]),
        "cpu_us_per_message": result.get("broker_cpu_us"),
        "megabytes_per_s": round(result["bytes_per_s"] / 1e6, 1),
        "client_cpu_us_per_message": result["client_cpu_us"],
    }


def latencies(results: Results) -> Figures:
    """Of traffic at a fixed rate: from the time a message was due until it was delivered, or confirmed."""
    (result,) = results
    end_to_end, confirm = result["latency_ms"], result["confirm_ms"]
    return {
        **rates(results),
        "p50_ms": end_to_end["p50"],
        "p99_ms": end_to_end["p99"],
        "confirm_p50_ms": confirm["p50"],
        "confirm_p99_ms": confirm["p99"],
    }


def costs(count: int) -> Callable[[Results], Figures]:
    """Of so many things that lie idle in the end: time and memory."""

    def figures(results: Results) -> Figures:
        before, after = results[0].get("broker_rss_before_bytes"), results[-1].get("broker_rss_bytes")
        grown = {} if before is None or after is None else {"rss_bytes_each": round((after - before) / count)}
        return {"seconds": round(sum(result["seconds"] for result in results), 2), "rss_bytes": after, **grown}

    return figures


def traffic(name: str, title: str, on_disk: bool = False, **options: str | int) -> Case:
    step: Options = {"queue": name, "delete-after": True}
    step |= {option.replace("_", "-"): value for option, value in options.items()}
    return Case(name, title, (step,), latencies if "rate" in step else rates, on_disk=on_disk)


def idle(name: str, title: str, count: int, *steps: Options) -> Case:
    return Case(name, title, steps, costs(count), fresh=True)


def traffic_cases() -> list[Case]:
    """One durable queue, persistent messages, confirms, an acknowledgement for each, if the title says nothing else."""
    small = "1 producer, 1 consumer, 16 B"
    return [
        traffic("16B", f"{small}, window 1,000", body=16),
        traffic("16B_window_10000", f"{small}, window 10,000", body=16, window=10_000),
        traffic("16B_prefetch_10000", f"{small}, window and prefetch 10,000", body=16, window=10_000, prefetch=10_000),
        traffic("1KB", "1 producer, 1 consumer, 1 KB", on_disk=True, body=1024),
        traffic("10KB", "1 producer, 1 consumer, 10 KB", on_disk=True, body=10_240),
        traffic("latency", "latency at 5,000 messages/s of 1 KB", body=1024, rate=5_000),
        traffic("4p4c", "4 producers, 4 consumers, 1 KB", body=1024, producers=4, consumers=4),
        traffic(
            "fanout",
            "fanout to 10 queues, 10 consumers, 100 B (deliveries)",
            body=100,
            exchange="bench.fanout",
            exchange_type="fanout",
            queues=10,
            consumers=10,
        ),
        traffic(
            "topic",
            "topic exchange, 1,000 bindings with wildcards, 10 queues, 100 B",
            body=100,
            exchange="bench.topic",
            exchange_type="topic",
            keys=1_000,
            queues=10,
            consumers=10,
        ),
        traffic("priority", "priority queue, 10 levels, 1 KB", body=1024, argument="x-max-priority=9", priority_max=9),
    ]


def idle_cases(scale: int) -> list[Case]:
    """What lies in a broker and costs memory; the quick ones are `scale` times smaller."""
    connections, queues, messages = 1_000 // scale, 10_000 // scale, 1_000_000 // scale
    return [
        idle(
            "connections",
            f"{connections:,} connections with a channel each",
            connections,
            {"mode": "connections", "connections": connections},
        ),
        idle(
            "channels",
            f"{100 // scale:,} connections with 100 channels each",
            100 * 100 // scale,
            {"mode": "connections", "connections": 100 // scale, "channels": 100},
        ),
        idle(
            "channels_many_connections",
            f"{connections:,} connections with 10 channels each",
            connections * 10,
            {"mode": "connections", "connections": connections, "channels": 10},
        ),
        idle(
            "queues",
            f"{queues:,} durable queues with a message of 100 B each",
            queues,
            {"mode": "declare", "queues": queues},
            {"mode": "publish", "queues": queues, "keys": queues, "messages": queues, "body": 100, "no-declare": True},
        ),
        idle(
            "backlog",
            f"{messages:,} waiting messages of 100 B",
            messages,
            {"mode": "publish", "messages": messages, "body": 100, "window": 10_000},
        ),
    ]


def medians(rounds: list[Figures]) -> Figures:
    """The median of each figure over the rounds."""
    return {
        name: None if rounds[0][name] is None else round(statistics.median(figures[name] for figures in rounds), 3)
        for name in rounds[0]
    }
