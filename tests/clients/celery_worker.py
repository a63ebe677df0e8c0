"""A Celery application with a few tasks, and its worker: `python -m tests.clients.celery_worker <settings as JSON>`."""

import json
import sys
import time
from itertools import count
from typing import Any

from celery import Celery

BASE: dict[str, Any] = {
    "broker_connection_retry_on_startup": True,
    "worker_prefetch_multiplier": 1,
    "worker_send_task_events": True,
    "task_acks_late": True,
    "task_track_started": True,
    # Seconds; what waits for results must not outlive the test.
    "result_expires": 60,
}

serial = count()


def add(x: int, y: int) -> int:
    return x + y


def total(numbers: list[int]) -> int:
    return sum(numbers)


def turn() -> int:
    """The number of this call: calls are counted in the order in which the worker makes them."""
    return next(serial)


def moment(self: Any) -> tuple[float, str]:
    """When and with which routing key the task arrived."""
    return time.time(), self.request.delivery_info["routing_key"]


def flaky(self: Any, failures: int, countdown: float) -> int:
    """Fail so many times, each time asking to be tried again later; then say how often."""
    if self.request.retries < failures:
        raise self.retry(countdown=countdown, max_retries=failures)
    return int(self.request.retries)


def make_app(settings: dict[str, Any]) -> Celery:
    """The application, for the worker and for those who send to it."""
    app = Celery("tests", broker=settings["broker_url"], backend=settings["result_backend"], set_as_current=False)
    app.conf.update(BASE, **settings)
    for task in (add, total, turn):
        app.task(task, name=task.__name__)
    for bound in (moment, flaky):
        app.task(bound, name=bound.__name__, bind=True)
    return app


def main() -> None:
    """Work until a signal."""
    app = make_app(json.loads(sys.argv[1]))
    app.worker_main(["worker", "--loglevel=INFO", "--concurrency=1", "--pool=prefork", "--heartbeat-interval=2"])


if __name__ == "__main__":
    main()
