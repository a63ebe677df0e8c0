"""Receipts: strings that prove a lease, for those who settle a message without holding its object.

    base64url( queue number 4 | message number 8 | lease 8 | 16 bytes of keyed BLAKE2b over those )

The key is made of the store's secret and of chance at each start: leases end with the process, and so do receipts.
"""

import binascii
import hmac
import secrets
import struct
from hashlib import blake2b

from leveret.core.errors import InvalidReceipt

_FACTS = struct.Struct(">IQQ")
_TO_URL = bytes.maketrans(b"+/", b"-_")
_FROM_URL = bytes.maketrans(b"-_+/", b"+/??")
PROOF_BYTES = 16
RECEIPT_CHARS = 48  # of 36 bytes in base64


class Receipts:
    """Makes receipts, and reads those that it made."""

    def __init__(self, secret: bytes) -> None:
        """Use the secret of a store."""
        key = hmac.digest(secret, secrets.token_bytes(32), "sha256")
        self._keyed = blake2b(key=key, digest_size=PROOF_BYTES)

    def write(self, queue: int, seq: int, lease: int) -> str:
        """The receipt of a lease."""
        facts = _FACTS.pack(queue, seq, lease)
        return binascii.b2a_base64(facts + self._proof(facts), newline=False).translate(_TO_URL).decode()

    def read(self, queue: int, receipt: str) -> tuple[int, int]:
        """The message and lease of a receipt of this queue."""
        if not isinstance(receipt, str) or len(receipt) != RECEIPT_CHARS:
            raise _invalid("is not a receipt")
        try:
            raw = binascii.a2b_base64(receipt.encode("ascii").translate(_FROM_URL), strict_mode=True)
        except (binascii.Error, ValueError):
            raise _invalid("is not a receipt") from None
        facts, proof = raw[: _FACTS.size], raw[_FACTS.size :]
        if not hmac.compare_digest(proof, self._proof(facts)):
            raise _invalid("was not made by this broker since it started")
        owner, seq, lease = _FACTS.unpack(facts)
        if owner != queue:
            raise _invalid("is of another queue")
        return seq, lease

    def _proof(self, facts: bytes) -> bytes:
        """What only this broker can add to the facts."""
        proof = self._keyed.copy()
        proof.update(facts)
        return proof.digest()


def _invalid(why: str) -> InvalidReceipt:
    """The refusal of a receipt."""
    return InvalidReceipt(f"the receipt {why}: use the one that came with the message, or receive it again")
