"""Move tasks: dead letters back to their queues, in the background."""

import asyncio
from pathlib import Path
from typing import Any

from tests.protocols.sqs.world import World, refused
from tests.waiting import PATIENCE_S


def died(world: World, bodies: str = "abc") -> tuple[str, str]:
    """A queue whose messages have all died."""
    dead = world.create("dead")
    policy = {"deadLetterTargetArn": world.arn(dead), "maxReceiveCount": 1}
    orders = world.create("orders", VisibilityTimeout="1", RedrivePolicy=policy)
    for body in bodies:
        world.send(orders, body)
    world.receive(orders, 10)
    world.later(1)
    return orders, dead


def tasks(world: World, dead: str, count: int = 10) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.do("ListMessageMoveTasks", SourceArn=world.arn(dead), MaxResults=count)[
        "Results"
    ]
    return found


def ended(world: World, dead: str) -> dict[str, Any]:
    """The newest task, when it has ended."""

    async def wait() -> None:
        async with asyncio.timeout(PATIENCE_S):
            while world.account.tasks._running:
                await asyncio.sleep(0.005)

    world.run(wait())
    return tasks(world, dead)[0]


def test_messages_go_back_to_where_they_died(world: World) -> None:
    orders, dead = died(world)
    assert world.do("StartMessageMoveTask", SourceArn=world.arn(dead))["TaskHandle"]
    assert ended(world, dead) == {
        "Status": "COMPLETED",
        "SourceArn": world.arn(dead),
        "ApproximateNumberOfMessagesMoved": 3,
        "ApproximateNumberOfMessagesToMove": 3,
        "StartedTimestamp": world.clock.now_ms(),
    }
    assert world.bodies(dead) == []
    got = world.receive(orders, 10, AttributeNames=["All"])
    assert [message["Body"] for message in got] == ["a", "b", "c"]
    assert got[0]["Attributes"]["ApproximateReceiveCount"] == "1"
    assert "DeadLetterQueueSourceArn" not in got[0]["Attributes"]


def test_messages_go_to_another_queue(world: World) -> None:
    _, dead = died(world)
    other = world.create("other")
    world.do("StartMessageMoveTask", SourceArn=world.arn(dead), DestinationArn=world.arn(other))
    assert ended(world, dead)["DestinationArn"] == world.arn(other)
    assert world.bodies(other) == ["a", "b", "c"]


def test_one_task_at_a_time_can_be_cancelled(world: World) -> None:
    orders, dead = died(world, "abcdefghij")
    start = {"SourceArn": world.arn(dead), "MaxNumberOfMessagesPerSecond": 1}
    handle = world.do("StartMessageMoveTask", **start)["TaskHandle"]
    with refused("InvalidParameterValueException", "There is already a task running."):
        world.do("StartMessageMoveTask", **start)
    (running,) = tasks(world, dead)
    assert (running["Status"], running["TaskHandle"]) == ("RUNNING", handle)
    assert running["MaxNumberOfMessagesPerSecond"] == 1
    world.do("CancelMessageMoveTask", TaskHandle=handle)
    done = ended(world, dead)
    assert (done["Status"], "TaskHandle" in done) == ("CANCELLED", False)
    moved = done["ApproximateNumberOfMessagesMoved"]
    assert moved < 10
    assert len(world.bodies(orders)) == moved
    with refused("ResourceNotFoundException", "Task does not exist."):
        world.do("CancelMessageMoveTask", TaskHandle=handle)


def test_a_destination_that_goes_fails_the_task(world: World) -> None:
    _, dead = died(world, "abcdef")
    other = world.create("other")
    start = {"SourceArn": world.arn(dead), "DestinationArn": world.arn(other), "MaxNumberOfMessagesPerSecond": 20}
    world.do("StartMessageMoveTask", **start)
    world.do("DeleteQueue", QueueUrl=other)
    done = ended(world, dead)
    assert (done["Status"], done["FailureReason"]) == ("FAILED", "AWS.SimpleQueueService.NonExistentQueue")


def test_messages_without_a_source_stay(world: World) -> None:
    _, dead = died(world, "a")
    world.send(dead, "never died")
    world.do("StartMessageMoveTask", SourceArn=world.arn(dead))
    done = ended(world, dead)
    assert (done["Status"], done["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    assert world.bodies(dead) == ["never died"]


def test_a_restart_fails_what_was_running(tmp_path: Path) -> None:
    world = World(str(tmp_path / "data"))
    try:
        _, dead = died(world, "abcdefghij")
        world.do("StartMessageMoveTask", SourceArn=world.arn(dead), MaxNumberOfMessagesPerSecond=1)
        world.restart()
        (task,) = tasks(world, dead)
        assert (task["Status"], task["FailureReason"]) == ("FAILED", "ServerRestarted")
        world.do("StartMessageMoveTask", SourceArn=world.arn(dead))
        assert ended(world, dead)["Status"] == "COMPLETED"
    finally:
        world.end()


def test_the_newest_tasks_are_kept(world: World) -> None:
    _, dead = died(world, "a")
    for _ in range(12):
        world.clock.advance(1)
        world.do("StartMessageMoveTask", SourceArn=world.arn(dead))
        ended(world, dead)
    started = [task["StartedTimestamp"] for task in tasks(world, dead)]
    assert len(started) == 10
    assert started == sorted(started, reverse=True)
    assert len(tasks(world, dead, 1)) == 1
