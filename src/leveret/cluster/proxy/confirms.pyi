from collections.abc import Iterable
from typing import NamedTuple

class Verdict(NamedTuple):
    number: int
    multiple: bool
    safe: bool

class Sent:
    def __bool__(self) -> bool: ...

class Confirms:
    def __len__(self) -> int: ...
    is_idle: bool
    def sent(self, number: int, shards: Iterable[Sent]) -> None: ...
    def heard(self, sent: Sent, inner: int, multiple: bool, safe: bool) -> list[Verdict]: ...
    def lost(self, sent: Sent) -> list[Verdict]: ...
