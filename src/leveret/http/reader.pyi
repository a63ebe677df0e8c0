from collections.abc import Callable
from enum import Enum

from leveret.http.limits import Limits
from leveret.http.request import Peer, Request

class Phase(Enum):
    IDLE = ...
    HEAD = ...
    BODY = ...

class Reader:
    body_bytes: int
    phase: Phase
    awaits_continue: bool
    def __init__(self, limits: Limits, peer: Peer, received: Callable[[Request, bool], None]) -> None: ...
    def feed(self, data: bytes) -> None: ...
