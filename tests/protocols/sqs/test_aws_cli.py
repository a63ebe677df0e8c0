"""The command of AWS, as a user would type it."""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.parts import AWS_CLI, need_aws_cli
from tests.protocols.sqs.server import Server
from tests.waiting import PATIENCE_S


@pytest.fixture
def aws(server: Server) -> Any:
    need_aws_cli()

    def run(*words: str) -> Any:
        command = [str(AWS_CLI), "--endpoint-url", server.url, "--output", "json", "sqs", *words]
        done = subprocess.run(
            command, env=os.environ | server.environ, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if done.stdout.strip() else None

    return run


def test_create_send_receive_delete(aws: Any, name: str) -> None:
    url = aws("create-queue", "--queue-name", name)["QueueUrl"]
    sent = aws("send-message", "--queue-url", url, "--message-body", "hello")
    (message,) = aws("receive-message", "--queue-url", url, "--wait-time-seconds", "5")["Messages"]
    assert (message["Body"], message["MessageId"]) == ("hello", sent["MessageId"])
    aws("delete-message", "--queue-url", url, "--receipt-handle", message["ReceiptHandle"])
    found = aws("get-queue-attributes", "--queue-url", url, "--attribute-names", "All")["Attributes"]
    assert found["ApproximateNumberOfMessages"] == "0"
