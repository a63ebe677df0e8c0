"""Payloads that only their sender and receiver can read: Fernet on this side of the wire.

{"encrypted": true, "payload": "gAAAA..."}      what the broker sees of {"card": "4111..."}

The broker cannot filter by what is inside, and it cannot be read any more when the keys are lost. The sizes of
messages and the times are not hidden.
"""

import json
from collections.abc import Iterable
from typing import Any

from leveret.core.errors import InvalidArgument, WrongKey


class Cipher:
    """Seals and opens payloads; of several keys the first one seals, and all of them open."""

    def __init__(self, keys: str | Iterable[str]) -> None:
        fernet = _fernet()
        given = [keys] if isinstance(keys, str) else list(keys)
        if not given:
            raise InvalidArgument("a cipher needs a key: make one with Cipher.new_key()")
        try:
            self._fernet = fernet.MultiFernet([fernet.Fernet(key) for key in given])
        except ValueError:
            raise InvalidArgument("a key is 32 bytes in base64: make one with Cipher.new_key()") from None

    @staticmethod
    def new_key() -> str:
        """A key; keep it where the messages are not."""
        key: bytes = _fernet().Fernet.generate_key()
        return key.decode()

    def seal(self, payload: Any) -> dict[str, Any]:
        """What to send in place of a payload, which is anything that JSON can say."""
        token: bytes = self._fernet.encrypt(json.dumps(payload).encode())
        return {"encrypted": True, "payload": token.decode()}

    def open(self, body: Any) -> Any:
        """The payload of a body that was sealed; others are refused, so that no sender can leave the cipher out."""
        if not isinstance(body, dict) or body.get("encrypted") is not True or not isinstance(body.get("payload"), str):
            raise InvalidArgument("the body was not sealed: its sender does not encrypt")
        try:
            return json.loads(self._fernet.decrypt(body["payload"].encode()))
        except _fernet().InvalidToken:
            raise WrongKey("the payload was sealed with another key, or changed on its way: check the keys") from None


def _fernet() -> Any:
    """The library, which is only there with the extra."""
    try:
        from cryptography import fernet
    except ImportError:
        raise InvalidArgument("encryption needs a library: pip install 'leveret[encryption]'") from None
    return fernet
