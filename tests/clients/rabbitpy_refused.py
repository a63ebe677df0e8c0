"""A test that rabbitpy's own suite lacks, run with it: a refused login reaches the client as a refusal."""

import os

import pytest
import rabbitpy
from rabbitpy import exceptions

ATTEMPTS = 12  # the client reads the refusal in a thread of its own: a reset in its place is a race


def test_every_wrong_password_is_access_refused() -> None:
    """The server sends connection.close 403 and lets the client read it before the socket ends."""
    url = os.environ["RABBITMQ_URL"].replace("guest:guest", "guest:wrong")
    for _ in range(ATTEMPTS):
        with pytest.raises(exceptions.AMQPAccessRefused):
            rabbitpy.Connection(url)
