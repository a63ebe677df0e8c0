from collections.abc import Callable

from leveret.core.errors import AccessRefused
from leveret.security.keys import AccessKey

ALGORITHM: str

class SignatureRefused(AccessRefused):
    reason: str
    def __init__(self, reason: str, text: str) -> None: ...

class SignedRequest:
    def __init__(
        self, method: str, path: bytes, query: bytes, headers: dict[bytes, bytes], body: bytes | None
    ) -> None: ...
    @property
    def can_be_proved(self) -> bool: ...

class Verifier:
    def __init__(self, service: str, find: Callable[[str], AccessKey | None]) -> None: ...
    def verify(self, request: SignedRequest, now_ms: int) -> AccessKey: ...

def signing_key(secret: str, date: str, region: str, service: str) -> bytes: ...
