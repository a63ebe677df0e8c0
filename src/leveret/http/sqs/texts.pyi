from typing import Any

from leveret.embedded.message import Message
from leveret.embedded.receipts import Receipts

def sent(entries: list[dict[str, Any]], data: list[bytes], tag: int, numbers: list[int]) -> bytes | None: ...
def received(
    messages: list[Message], receipts: Receipts, queue: int, tag: int, plain: dict[bytes, str | None]
) -> bytes | None: ...
def deleted(entries: list[dict[str, Any]]) -> bytes: ...
