"""Celery with a worker process: results, retries, schedules, priorities, chords, remote control and events."""

import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError
from kombu import pools
from kombu.transport.native_delayed_delivery import level_name

from tests.clients.celery_worker import make_app
from tests.clients.conftest import Broker
from tests.sources import ROOT
from tests.waiting import PATIENCE_S

LEVELS = 28


@contextmanager
def working(settings: dict[str, Any], log: Path) -> Iterator[Celery]:
    """An application whose worker runs, in a process of its own, until the block ends."""
    command = [sys.executable, "-m", "tests.clients.celery_worker", json.dumps(settings)]
    app = make_app(settings)
    with log.open("w") as output, subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output) as worker:
        try:
            assert any(app.control.ping(limit=1, timeout=1) for _ in range(round(PATIENCE_S))), log.read_text()
            yield app
        finally:
            worker.terminate()
            worker.wait(PATIENCE_S)
            app.close()
            # Closing the application leaves its connections in these.
            pools.reset()
    assert worker.returncode == 0, log.read_text()


def names(prefix: str) -> dict[str, str]:
    """Settings that keep the queues of one application apart from all others."""
    own = f"{prefix}-{uuid.uuid4().hex[:8]}"
    exchanges = ("task_default_exchange", "control_exchange", "event_exchange")
    return {"task_default_queue": own, "task_default_routing_key": own} | {key: f"{own}-{key}" for key in exchanges}


@pytest.fixture(scope="module")
def app(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """Classic queues with priorities; results are messages."""
    settings = names("classic") | {
        "broker_url": broker.url,
        "result_backend": "rpc://",
        "task_queue_max_priority": 10,
        # A task that was sent is in its queue: commands to the worker take another connection, and might pass it.
        "broker_transport_options": {"confirm_publish": True},
    }
    with working(settings, tmp_path_factory.mktemp("celery") / "worker.log") as app:
        yield app
        # Closing the application leaves the connection open on which results came.
        app.backend.result_consumer.stop()


@pytest.fixture(scope="module")
def quorum(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Celery]:
    """Quorum queues, where delays are a ladder of queues; results are files, which chords need."""
    home = tmp_path_factory.mktemp("quorum")
    settings = names("quorum") | {
        "broker_url": broker.url,
        "result_backend": f"file://{home}",
        "task_default_queue_type": "quorum",
        "task_default_exchange_type": "topic",
    }
    with working(settings, home / "worker.log") as app:
        yield app


def test_tasks_return_results(app: Celery) -> None:
    results = [app.send_task("add", (number, number)) for number in range(20)]
    assert [result.get(timeout=PATIENCE_S) for result in results] == list(range(0, 40, 2))


def test_groups_and_chains(app: Celery) -> None:
    add = app.tasks["add"]
    assert group(add.s(n, 1) for n in range(5))().get(timeout=PATIENCE_S) == [1, 2, 3, 4, 5]
    assert chain(add.s(1, 2), add.s(3), add.s(4))().get(timeout=PATIENCE_S) == 10


def test_retries_wait_for_their_countdown(app: Celery) -> None:
    started = time.monotonic()
    assert app.send_task("flaky", (3, 0.2)).get(timeout=PATIENCE_S) == 3
    assert time.monotonic() - started >= 0.6


def test_a_task_waits_for_its_eta(app: Celery) -> None:
    eta = datetime.now(UTC) + timedelta(seconds=1)
    ran, _ = app.send_task("moment", eta=eta).get(timeout=PATIENCE_S)
    assert ran >= eta.timestamp()


def test_higher_priorities_run_first(app: Celery) -> None:
    queue = app.conf.task_default_queue
    app.control.cancel_consumer(queue, reply=True, limit=1, timeout=PATIENCE_S)
    priorities = [1, 9, 0, 5, 3]
    results = {priority: app.send_task("turn", priority=priority) for priority in priorities}
    app.control.add_consumer(queue, reply=True, limit=1, timeout=PATIENCE_S)
    turns = {priority: result.get(timeout=PATIENCE_S) for priority, result in results.items()}
    assert sorted(priorities, key=turns.__getitem__) == [9, 5, 3, 1, 0]


def test_a_revoked_task_does_not_run(app: Celery) -> None:
    name = uuid.uuid4().hex
    app.control.revoke(name, reply=True, limit=1, timeout=PATIENCE_S)
    with pytest.raises(TaskRevokedError):
        app.send_task("add", (1, 1), task_id=name).get(timeout=PATIENCE_S)


def test_the_worker_answers_questions(app: Celery) -> None:
    ((_, queues),) = app.control.inspect(limit=1, timeout=PATIENCE_S).active_queues().items()
    assert [queue["name"] for queue in queues] == [app.conf.task_default_queue]


def test_events_tell_the_life_of_a_task(app: Celery) -> None:
    name = uuid.uuid4().hex
    seen: list[str] = []

    def note(event: dict[str, Any]) -> None:
        if event.get("uuid") == name:  # those of earlier tasks may still be on their way
            seen.append(event["type"])
            receiver.should_stop = event["type"] == "task-succeeded"

    with app.connection_for_read() as connection:
        receiver = app.events.Receiver(connection, handlers={"*": note})
        receiver.on_consume_ready = lambda *_, **__: app.send_task("add", (1, 1), task_id=name)
        receiver.capture(timeout=PATIENCE_S)
    assert seen == ["task-received", "task-started", "task-succeeded"]


def test_a_chord_joins_its_tasks(quorum: Celery) -> None:
    add, total = quorum.tasks["add"], quorum.tasks["total"]
    assert chord((add.s(n, n) for n in range(5)), total.s())().get(timeout=PATIENCE_S) == 20


def test_the_worker_declares_the_ladder_of_delays(quorum: Celery) -> None:
    with quorum.connection_for_read() as connection:
        channel = connection.default_channel
        declared = [channel.queue_declare(level_name(level), passive=True).queue for level in range(LEVELS)]
    assert len(declared) == LEVELS


def test_a_delayed_task_climbs_down_the_ladder(quorum: Celery) -> None:
    started = time.time()
    ran, key = quorum.send_task("moment", countdown=3).get(timeout=PATIENCE_S)
    assert ran - started >= 3
    assert key == ".".join(f"{3:028b}") + f".{quorum.conf.task_default_routing_key}"


def test_retries_on_quorum_queues(quorum: Celery) -> None:
    assert quorum.send_task("flaky", (2, 1)).get(timeout=PATIENCE_S) == 2
