"""The bytes between two nodes: many streams on one connection.

    | u32 size of what follows | u8 kind | u32 stream | payload |

HELLO   version, cluster, role, node, to, nonce (JSON)   the handshake: see below
PROOF   one or two HMAC-SHA256                      that the sender knows the cluster's secret; nothing else before it
OPEN    shard, caller (JSON)                        a client of the sender's wants something of a shard of the other
        edge, request (JSON)                        the same by HTTP: see leveret.cluster.forwarding.request
DATA    frames of AMQP, and those of claims.py, either way; bodies of requests and answers
PAUSE, RESUME                                       say no more for a while; go on
CLOSE   why (text)                                  the end of a stream, by the side that has nothing more to say
ASK, ANSWER                                         one message there and one back, or {"refused": why}
PING                                                still there

The version is two numbers. Nodes with the same first one talk to each other, so that they can be upgraded one by one:
what is new in a later minor version is ignored, or refused in an answer, by those who do not know it. A node with
another first number is refused, whatever it could prove: version 3 has another handshake, and no proof of version 2 is
accepted.

The handshake of two nodes: each proves that it knows the secret of the cluster, the caller first.

    caller                                             acceptor
    HELLO version, cluster, role, node, to, nonce -->
                                                  <--  HELLO version, cluster, role, node, to, nonce
    PROOF with each of its keys (one or two)      -->  verifies
    verifies                                      <--  PROOF with the key that both have

    PROOF = HMAC-SHA256(key, label | role of the prover | caller's HELLO | acceptor's HELLO | channel binding)

Each part of the MAC has its length in front, and both HELLOs are in it byte for byte: version, cluster, both roles,
both names and both nonces. CLOSE instead of any of these messages says why an end refuses.

Why a stranger does not get in:
- The acceptor sends nothing that depends on the secret before it has verified the caller. So two nodes that both listen
  cannot be used against each other: neither makes a proof that a stranger could pass on.
- A proof is valid for one caller, one acceptor, one role of the prover and one pair of nonces. It cannot be reflected,
  replayed, used in the other direction, or shown to a third node, whose name and nonce are different.
- With TLS, the channel binding (see leveret.security.tls) makes it valid for one TLS connection. A proof that is
  relayed between two connections is refused, even if the relay has a valid certificate, or the key of one of the nodes.

What it does not do: without TLS, an attacker on the path between two nodes can let them authenticate each other and
then read and change what they send; and an attacker that a node calls gets a MAC by which it can test guesses of the
secret. Hence secrets of 32 bytes at least, scrypt (see leveret.security.cluster_secret), and mutual TLS between
machines.
"""

import hmac
import json
import secrets
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

import orjson

from leveret.core.errors import AccessRefused, InvalidArgument
from leveret.core.names import NAME_BYTES_MAX

VERSION = (3, 0)
MESSAGE_BYTES_MAX = 64 << 20  # of a payload: a batch of SQS or REST with the largest bodies
STRANGER_BYTES_MAX = 2_048  # before the proof: three names of 255 bytes and a nonce in JSON
NUMBERS = 1 << 32  # of streams
_HEAD = struct.Struct(">IBI")
_SIZE_BYTES = 4
_HEAD_BYTES = _HEAD.size - _SIZE_BYTES


class FrameKind(IntEnum):
    """What a message is."""

    UNKNOWN = 0
    HELLO = 1
    PROOF = 2
    OPEN = 3
    DATA = 4
    PAUSE = 5
    RESUME = 6
    CLOSE = 7
    ASK = 8
    ANSWER = 9
    PING = 10


_KINDS = {int(kind): kind for kind in FrameKind}


class LinkFrame(NamedTuple):
    """One message of a stream."""

    kind: FrameKind
    number: int
    payload: bytes


def encode(kind: FrameKind, number: int, payload: bytes = b"") -> bytes:
    """The bytes of a message."""
    return _HEAD.pack(_HEAD_BYTES + len(payload), kind, number) + payload


class LinkReader:
    """Bytes to messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self.bytes_max = STRANGER_BYTES_MAX

    def feed(self, data: bytes) -> Iterator[LinkFrame]:
        """The messages that are here whole; raises InvalidArgument for what is none."""
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= _HEAD.size:
                size, kind, number = _HEAD.unpack_from(self._buffer, start)
                if not 0 <= size - _HEAD_BYTES <= self.bytes_max:
                    raise InvalidArgument(f"a message of {size} bytes from another node: at most {self.bytes_max}")
                end = start + _SIZE_BYTES + size
                if len(self._buffer) < end:
                    return
                payload = bytes(self._buffer[start + _HEAD.size : end])
                start = end
                yield LinkFrame(_KINDS.get(kind, FrameKind.UNKNOWN), number, payload)
        finally:
            del self._buffer[:start]


def packed(told: dict[str, Any]) -> bytes:
    """JSON; names of clients may hold bytes that are no UTF-8, which only the slower way can write."""
    try:
        return orjson.dumps(told)
    except TypeError:
        return json.dumps(told).encode()


def unpacked(payload: bytes) -> Any:
    """The reverse; ValueError if it is none."""
    try:
        return orjson.loads(payload)
    except ValueError:
        return json.loads(payload)


def refusal(why: object) -> bytes:
    """The answer to a question that is not understood, or not answered for another reason."""
    return json.dumps({"refused": str(why)}).encode()


def is_refusal(answer: bytes) -> bool:
    """Whether an answer is that."""
    return answer.startswith(b'{"refused"')


def is_too_long(said: bytes) -> bool:
    """Whether a question or an answer is more than the other node takes."""
    return len(said) > MESSAGE_BYTES_MAX


def too_long(said: bytes) -> bytes:
    """The refusal of such a one."""
    return refusal(f"{len(said)} bytes in one message between nodes: at most {MESSAGE_BYTES_MAX}")


def check_version(told: object, peer: str) -> None:
    """Refuse to talk to a node with which that would be of no use."""
    if not isinstance(told, list) or not told or told[0] != VERSION[0]:
        raise AccessRefused(
            f"node '{peer}' speaks version {told} between nodes, and this one {list(VERSION)}: stop all nodes of the "
            "earlier release, then start them with the later one"
        )


NONCE_BYTES = 32
PROOF_BYTES = 32
KEYS_MAX = 2  # the current secret and the previous one
REASON_CHARACTERS_MAX = 200  # of a refusal, which comes from an unauthenticated node
LABEL = b"leveret peer handshake 3"
CALLER, ACCEPTOR = "caller", "acceptor"


class Hello(NamedTuple):
    """What a node says about itself; nothing of it is verified before its proof is."""

    version: object
    cluster: object
    role: object
    node: str
    to: object
    nonce: object


class Handshake:
    """One end of a handshake: takes messages of the other end, and gives `say` those to send."""

    def __init__(
        self,
        name: str,
        cluster: str,
        keys: tuple[bytes, ...],
        calls: str | None,
        binding: bytes,
        say: Callable[[FrameKind, bytes], None],
    ) -> None:
        """`calls` is the node that is called; None: this end accepts. A caller says its HELLO at once."""
        self.peer = ""
        """The name that the other node gives itself."""
        self.is_done = False
        """Whether the other node is authenticated."""
        self._name = name
        self._cluster = cluster
        self._keys = keys[:KEYS_MAX]
        self._calls = calls
        self._binding = binding
        self._say = say
        self._role, self._other = (ACCEPTOR, CALLER) if calls is None else (CALLER, ACCEPTOR)
        self._nonce = secrets.token_hex(NONCE_BYTES)
        self._own = b""
        self._theirs = b""
        if calls is not None:
            self._greet(calls)

    def receive(self, message: LinkFrame) -> None:
        """Take the next message; raises AccessRefused or InvalidArgument if the other node is refused."""
        if message.kind is FrameKind.HELLO and not self._theirs:
            self._take_hello(message.payload)
        elif message.kind is FrameKind.PROOF and self._theirs:
            self._take_proof(message.payload)
        elif message.kind is FrameKind.CLOSE:
            raise HandshakeRefused(
                f"node '{self.peer or self._calls or '?'}' refuses this one: {_text(message.payload)}"
            )
        else:
            raise InvalidArgument(f"{message.kind.name} before the handshake is done")

    # HELLO

    def _greet(self, to: str) -> None:
        told = {"version": VERSION, "cluster": self._cluster, "role": self._role}
        self._own = orjson.dumps({**told, "node": self._name, "to": to, "nonce": self._nonce})
        self._say(FrameKind.HELLO, self._own)

    def _take_hello(self, payload: bytes) -> None:
        told = _hello(payload)
        self._theirs, self.peer = payload, told.node
        if self._calls is None:
            # Also to one that is refused now: it says so in its own log, in words that every version understands.
            self._greet(told.node)
        self._check(told)
        if self._calls is not None:
            self._say(FrameKind.PROOF, b"".join(self._proof(key, CALLER) for key in self._keys))

    def _check(self, told: Hello) -> None:
        """Refuse a node before it proves anything: one with which a handshake could not succeed."""
        check_version(told.version, told.node)
        if told.cluster != self._cluster:
            raise AccessRefused(
                f"node '{told.node}' is of the cluster {_shown(told.cluster)}, not of '{self._cluster}'"
            )
        if told.role != self._other:
            raise AccessRefused(f"node '{told.node}' is no {self._other}")
        if told.node == self._name or told.nonce == self._nonce:
            raise AccessRefused(f"another node calls itself '{self._name}': give each a name of its own (node)")
        if self._calls not in (None, told.node):  # it has the address of a node that is gone, and a link of its own
            raise AccessRefused(f"node '{told.node}' answers in the place of '{self._calls}'")
        if told.to != self._name:
            raise AccessRefused(f"node '{told.node}' calls {_shown(told.to)}, and this is '{self._name}'")
        if not isinstance(told.nonce, str) or len(told.nonce) != len(self._nonce):
            raise InvalidArgument(f"node '{told.node}' sends no nonce of {NONCE_BYTES} bytes")

    # PROOF

    def _take_proof(self, payload: bytes) -> None:
        given = [payload[at : at + PROOF_BYTES] for at in range(0, len(payload), PROOF_BYTES)]
        if len(given) > KEYS_MAX:
            raise InvalidArgument(f"node '{self.peer}' sends more than {KEYS_MAX} proofs")
        for key in self._keys:
            expected = self._proof(key, self._other)
            if any(hmac.compare_digest(each, expected) for each in given):
                break
        else:
            raise AccessRefused(
                f"node '{self.peer}' does not prove that it knows the cluster_secret: give both nodes the same one, or "
                "the other as cluster_secret_previous, and let nothing between them end TLS"
            )
        self.is_done = True
        if self._calls is None:
            self._say(FrameKind.PROOF, self._proof(key, ACCEPTOR))

    def _proof(self, key: bytes, prover: str) -> bytes:
        hellos = (self._theirs, self._own) if self._calls is None else (self._own, self._theirs)
        parts = (LABEL, prover.encode(), *hellos, self._binding)
        return hmac.digest(key, b"".join(len(part).to_bytes(4) + part for part in parts), "sha256")


class HandshakeRefused(AccessRefused):
    """The other node refuses this one, and need not be told that the link ends."""


def check_name(option: str, name: str) -> None:
    """Raise InvalidArgument if other nodes would refuse a name."""
    if not _is_name(name):
        raise InvalidArgument(f"{option} is a name of 1 to {NAME_BYTES_MAX} bytes that can be printed: correct it")


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isprintable() and 0 < len(name.encode()) <= NAME_BYTES_MAX


def _hello(payload: bytes) -> Hello:
    """A HELLO of any version; raises InvalidArgument if it has no name in it."""
    try:
        told = orjson.loads(payload)  # has a limit on depth, and takes nothing but UTF-8
    except ValueError:
        told = None
    found: dict[str, Any] = told if isinstance(told, dict) else {}
    if not _is_name(found.get("node")):
        raise InvalidArgument("the first message of a node has to be JSON with its name")
    return Hello(*(found.get(name) for name in Hello._fields))  # type: ignore[arg-type]


def _shown(value: object) -> str:
    """A value of an unauthenticated node as a message may have it."""
    return repr(value)[:REASON_CHARACTERS_MAX]


def _text(payload: bytes) -> str:
    text = payload.decode(errors="replace")[:REASON_CHARACTERS_MAX]
    return "".join(character if character.isprintable() else "?" for character in text)
