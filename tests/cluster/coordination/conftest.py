"""Tests share an etcd: each has a prefix of its own there."""

import itertools

import pytest

_numbers = itertools.count()


@pytest.fixture
def prefix() -> str:
    """Where a test may write."""
    return f"/test/{next(_numbers)}/"
