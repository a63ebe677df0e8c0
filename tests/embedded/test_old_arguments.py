"""A data directory with arguments that older versions took and this one refuses: it opens without them."""

from pathlib import Path

import pytest

import leveret
from leveret.core import arguments
from leveret.core.definition_log import Kind

POLICY = {"vhost": "/", "name": "old", "pattern": "", "priority": 0, "apply-to": "queues", "operator": False}


def test_a_stored_queue_version_that_is_not_known_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older, leveret.open(str(tmp_path)) as broker, broker.runtime as core:
        older.setattr(arguments, "QUEUE_VERSIONS", (1, 2, 7))
        core.declare_queue("/", "orders", arguments={"x-queue-version": 7, "x-max-length": 5})
        core.define(Kind.POLICY, {**POLICY, "definition": {"queue-version": 9, "expires": 60_000}})
    with leveret.open(str(tmp_path)) as broker, broker.runtime as core:
        queue = core.topology.vhost("/").queue("orders")
        assert queue.arguments == {"x-max-length": 5}
        assert queue.policy.expires_ms == 60_000
