from dataclasses import dataclass
from typing import Any

ABSENT: int
INVALID: int

@dataclass(slots=True)
class Properties:
    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp: int | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

def decode_header(payload: bytes) -> Properties: ...
def encode_header(properties: Properties, body_size: int) -> bytes: ...
def content(properties: Properties | None, body: bytes) -> tuple[bytes, int]: ...
def rejoined(header: bytes, body: bytes) -> bytes: ...
def scan_header(content: bytes, header_len: int) -> tuple[int, int, int, int]: ...
