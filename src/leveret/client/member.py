"""A member of a consumer group, without a connection: what it reads and has done, as requests and their answers."""

from __future__ import annotations

import secrets

from leveret.client import stream_calls
from leveret.client.calls import ClientCall
from leveret.client.record import RemoteRecord
from leveret.client.stream_calls import JoinedGroup, Polled
from leveret.core.membership import Assignment

SIGNS_PER_SESSION = 3
"""How often a member that waits gives a sign of life within its session."""
WAIT_S_MAX = 60  # of one request, as the server has it
REST_S = 1.0  # of a member without partitions, before it asks again: it takes over soon when another goes


class RemoteMember:
    """What the consumers for threads and for asyncio share."""

    def __init__(self, stream: str, group: str, name: str | None, session_s: float) -> None:
        self.name = name or f"member-{secrets.token_hex(8)}"
        self.assignment = Assignment(0, ())
        self.done: dict[int, int] = {}
        """What to commit: the offset after the last record that was given, by partition."""
        self._stream = stream
        self._group = group
        self.session_s = session_s
        self.rest_s = min(REST_S, session_s / SIGNS_PER_SESSION)
        self._offsets: dict[int, int] = {}
        """Where to read on; the partition that was read last is last."""

    def join(self) -> ClientCall[JoinedGroup]:
        """Learn what to read."""
        return stream_calls.join(self._stream, self._group, self.name, self.session_s)

    def learn(self, joined: JoinedGroup) -> None:
        """Begin where the group is; what was not committed comes again."""
        self.assignment, self._offsets, self.done = joined.assignment, joined.offsets, {}

    def poll(self, max_records: int, wait_s: float) -> ClientCall[Polled]:
        """Read what comes next, and give a sign of life; the wait may be shorter than was asked for."""
        sign_s = min(self.session_s / SIGNS_PER_SESSION, WAIT_S_MAX)
        return stream_calls.poll(
            self._stream,
            self._group,
            self.name,
            self.assignment.generation,
            self._offsets,
            max_records,
            max(0, min(wait_s, sign_s)),
        )

    def take(self, polled: Polled) -> list[RemoteRecord]:
        """Read on after these records; the partitions that gave none come first the next time."""
        for partition in dict.fromkeys(record.partition for record in polled.records):
            del self._offsets[partition]
        self._offsets |= polled.offsets
        return polled.records

    def give(self, record: RemoteRecord) -> RemoteRecord:
        """Count a record as done with the next commit."""
        self.done[record.partition] = record.offset + 1
        return record

    def commit(self) -> ClientCall[None]:
        """Note that all that was given is done."""
        return stream_calls.commit(self._stream, self._group, self.name, self.assignment.generation, self.done)

    def leave(self) -> ClientCall[None]:
        """Go."""
        return stream_calls.leave(self._stream, self._group, self.name)


class Enrolled:
    """A consumer that is a member."""

    def __init__(self, member: RemoteMember) -> None:
        self._member = member

    @property
    def member(self) -> str:
        """Its name."""
        return self._member.name

    @property
    def partitions(self) -> tuple[int, ...]:
        """What it reads now."""
        return self._member.assignment.partitions
