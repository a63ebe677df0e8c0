"""Scenarios: lists of operations, and the transcript of what a server answers to them.

A transcript has one line for each thing said, with the connection's letter and the channel's number in front. What
differs from run to run (generated names, times, how confirms are gathered) is written in one way for all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from leveret.core.properties import Properties
from leveret.wire import methods as m
from tests.rabbitmq.wire import ANSWER_S_MAX, Said, Wire, frames

QUIET_S = 0.25  # when a server has been silent for so long, it has nothing more to say
BODY_SHOWN_BYTES_MAX = 100
GENERATED = re.compile(r"amq\.(gen|ctag|rabbitmq\.reply-to)([-.])[\w\-=+/.]+")
SAID_ALONE = (m.BasicDeliver, m.BasicReturn, m.BasicAck, m.BasicNack, m.BasicCancel)


@dataclass(frozen=True)
class Op:
    """One operation on a channel of a connection; `on` says which: a1 is channel 1 of connection a."""

    method: m.Method
    properties: Properties | None = None
    body: bytes = b""
    on: str = "a1"


@dataclass(frozen=True)
class Burst:
    """Operations on a channel that is open already, in one write: a server can read all of them in one turn."""

    ops: tuple[Op, ...]


@dataclass(frozen=True)
class Listen:
    """Note what the server says by itself, until it is silent for so long."""

    quiet_s: float = QUIET_S


@dataclass(frozen=True)
class Drop:
    """Let go of a connection's socket without a word."""

    connection: str = "a"


Step = Op | Burst | Listen | Drop
Script = Sequence[Step]


def on(where: str, *steps: Op) -> tuple[Op, ...]:
    """The same operations on another channel or connection."""
    return tuple(replace(step, on=where) for step in steps)


class Run:
    """One run of a script against a server."""

    def __init__(self, host: str, port: int, vhost: str = "/", patience: float = 1.0) -> None:
        """`patience` times as long as a script says is waited for what comes by itself."""
        self.address = host, port, vhost
        self.patience = patience
        self.wires: dict[str, Wire] = {}
        self.lines: list[str] = []
        self.unasked: dict[str, list[Said]] = {}
        self.confirmed: dict[str, set[int]] = {}

    def play(self, script: Script) -> list[str]:
        """The transcript of a script; whatever it made is removed again."""
        try:
            for step in script:
                self.step(step)
            self.listen(QUIET_S)
        finally:
            for wire in self.wires.values():
                wire.close()
        self.clean(script)
        return self.lines

    def step(self, step: Step) -> None:
        """Do one step."""
        if isinstance(step, Listen):
            self.listen(step.quiet_s)
        elif isinstance(step, Drop):
            self.wires.pop(step.connection).drop()
        elif isinstance(step, Burst):
            data = b"".join(frames(int(op.on[1:]), op.method, op.properties, op.body) for op in step.ops)
            self.wires[step.ops[0].on[0]].socket.sendall(data)
            for op in step.ops:
                self.hear(op)
        else:
            self.ask(step)

    def wire(self, connection: str) -> Wire:
        """A connection, made anew when it was closed."""
        if connection not in self.wires or self.wires[connection].closed:
            self.wires[connection] = Wire(*self.address)
        return self.wires[connection]

    def ask(self, op: Op) -> None:
        """Send a method and note its answer, if it has one."""
        connection, channel = op.on[0], int(op.on[1:])
        wire = self.wire(connection)
        wire.send(channel, op.method, op.properties, op.body)
        self.hear(op)

    def hear(self, op: Op) -> None:
        """Note the answer to a method, if it has one."""
        connection = op.on[0]
        wire = self.wires[connection]
        if not op.method.spec.replies or getattr(op.method, "nowait", False):
            return
        while True:
            said = wire.read(ANSWER_S_MAX)
            if said is None:
                self.lines.append(f"{op.on} " + ("the connection is gone" if wire.closed else "no answer"))
                return
            if isinstance(said.method, SAID_ALONE):
                self.unasked.setdefault(connection, []).append(said)
                continue
            self.note(connection, said)
            return

    def listen(self, quiet_s: float) -> None:
        """Note what the server says by itself."""
        for connection, wire in self.wires.items():
            heard = self.unasked.pop(connection, [])
            while not wire.closed and (said := wire.read(self.patience * quiet_s)) is not None:
                heard.append(said)
            for said in heard:
                self.note(connection, said)

    def note(self, connection: str, said: Said) -> None:
        """Write one thing down; confirms of the same kind in one line, however they were gathered."""
        where = f"{connection}{said.channel}"
        line = f"{where} {written(said.method)}"
        if isinstance(said.method, m.BasicAck | m.BasicNack):
            confirmed = self.confirmed.setdefault(where, set())
            tags = tags_of(said.method, confirmed)
            confirmed.update(tags)
            opening = f"{where} {type(said.method).__name__}"
            line = " ".join(
                [self.lines.pop() if self.lines and self.lines[-1].startswith(opening) else opening, *map(str, tags)]
            )
        if said.properties is not None:
            body = said.body if len(said.body) <= BODY_SHOWN_BYTES_MAX else f"{len(said.body)} bytes"
            line += f" | {written(said.properties)} | {body!r}"
        line = re.sub(rf"vhost (\\?)'{self.address[2]}\\?'", r"vhost \1'/\1'", line)
        self.lines.append(GENERATED.sub(r"amq.\1\2*", line))

    def clean(self, script: Script) -> None:
        """Remove the queues and exchanges that a script may have made."""
        wire = Wire(*self.address)
        for step in script:
            if isinstance(step, Op) and isinstance(step.method, m.QueueDeclare) and step.method.queue:
                wire.send(1, m.QueueDelete(step.method.queue))
                wire.read(ANSWER_S_MAX)
            if isinstance(step, Op) and isinstance(step.method, m.ExchangeDeclare) and step.method.exchange:
                wire.send(1, m.ExchangeDelete(step.method.exchange))
                wire.read(ANSWER_S_MAX)
            if wire.closed:
                wire = Wire(*self.address)
        wire.close()


def written(value: Any) -> str:
    """A method or properties with what is set in them, on one line."""
    given = {each.name: getattr(value, each.name) for each in fields(value)}
    told = {name: item for name, item in given.items() if item not in (None, False, "", {})}
    inside = ", ".join(f"{name}={plain(item)!r}" for name, item in told.items())
    return f"{type(value).__name__}({inside})"


def plain(value: Any) -> Any:
    """A value without what no two runs share."""
    if isinstance(value, dict):
        return {key: "now" if key == "time" else plain(item) for key, item in sorted(value.items())}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    return value


def tags_of(method: m.BasicAck | m.BasicNack, confirmed: set[int]) -> list[int]:
    """The messages that a confirm is about."""
    first = 1 if method.multiple else method.delivery_tag
    return [tag for tag in range(first, method.delivery_tag + 1) if tag not in confirmed]
