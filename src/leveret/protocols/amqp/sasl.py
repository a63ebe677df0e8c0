"""Login responses: PLAIN, AMQPLAIN and EXTERNAL. What they say is parsed here, whether it is true is not decided here.

PLAIN     NUL name NUL password
AMQPLAIN  the fields LOGIN and PASSWORD of a table, without the table's length
EXTERNAL  the name that is asked for, or nothing: the certificate says who it is
"""

from collections.abc import Callable

from leveret.core.tables import MalformedTable, decode_table
from leveret.protocols.amqp.replies import ProtocolError, Reply
from leveret.security.authentication import TOKEN_BYTES_MAX, Credentials

NAME_BYTES_MAX = 255
RESPONSE_BYTES_MAX = TOKEN_BYTES_MAX + NAME_BYTES_MAX + 64
"""Before the login a client gets little memory; but a web token, with a name and what is around them, has to fit."""


def parse(mechanism: str, response: bytes) -> Credentials:
    """The credentials in a response; raises ProtocolError, whose text never repeats what was sent."""
    parser = MECHANISMS.get(mechanism)
    if parser is None:
        raise ProtocolError(
            Reply.COMMAND_INVALID, f"unknown authentication mechanism; use one of {' '.join(MECHANISMS)}"
        )
    if len(response) > RESPONSE_BYTES_MAX:
        raise ProtocolError(Reply.SYNTAX_ERROR, f"a login response has at most {RESPONSE_BYTES_MAX} bytes")
    credentials = parser(response)
    if credentials is None:
        raise ProtocolError(Reply.SYNTAX_ERROR, f"invalid {mechanism} response")
    return credentials


def _credentials(name: bytes, password: bytes) -> Credentials | None:
    if len(name) > NAME_BYTES_MAX:
        return None
    try:
        return Credentials(name.decode(), password)
    except UnicodeDecodeError:
        return None


def _plain(response: bytes) -> Credentials | None:
    # The part before the first NUL asks to act for another user: RabbitMQ refuses that, too.
    parts = response.split(b"\0")
    return _credentials(parts[1], parts[2]) if len(parts) == 3 and not parts[0] else None


def _amqplain(response: bytes) -> Credentials | None:
    try:
        table, _ = decode_table(len(response).to_bytes(4, "big") + response)
    except MalformedTable:
        return None
    name, password = _bytes(table.get("LOGIN")), _bytes(table.get("PASSWORD"))
    return None if name is None or password is None else _credentials(name, password)


def _bytes(value: object) -> bytes | None:
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, bytes) else None


def _external(response: bytes) -> Credentials | None:
    return _credentials(response, b"")


MECHANISMS: dict[str, Callable[[bytes], Credentials | None]] = {
    "PLAIN": _plain,
    "AMQPLAIN": _amqplain,
    "EXTERNAL": _external,
}
