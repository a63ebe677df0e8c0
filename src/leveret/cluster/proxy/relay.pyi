from typing import Any

from leveret.cluster.proxy.confirms import Confirms, Sent
from leveret.cluster.proxy.connection import FrontConnection
from leveret.cluster.proxy.names import Names
from leveret.cluster.proxy.tags import Tags
from leveret.core.queue import Queue
from leveret.protocols.amqp.frames import FrameWriter
from leveret.protocols.amqp.traffic import Route, Traffic

class Conduit:
    connection: FrontConnection
    writer: FrameWriter
    branches: dict[int, Any]
    closing: dict[int, int]
    unsure: Names
    last_mark: int
    noted: bool
    def __init__(self, connection: FrontConnection) -> None: ...
    def begin(self) -> None: ...
    def method(self, number: int, payload: bytes) -> None: ...
    def content(self, number: int, method: bytes, content: bytes, header_len: int) -> None: ...
    def note(self) -> None: ...
    def receive(self, data: bytes) -> None: ...

class Strand:
    backend: Any
    number: int
    names: Names
    sent: Sent
    consumers: dict[str, Any]
    def __init__(self, backend: Conduit, number: int) -> None: ...

class FrontRoute(Route):
    def __init__(self, queues: list[Queue], plain: bool, homes: list[str]) -> None: ...

class Relay(Traffic):
    tags: Tags
    confirms: Confirms
    branches: dict[str, Any]
    def settle_now(self, tag: int, multiple: bool, how: int) -> None: ...
    def deliver_late(self, branch: Strand, method: bytes, content: bytes, header_len: int) -> None: ...
    def got(self, branch: Strand, inner: int, redelivered: bool, no_ack: bool) -> int: ...
