"""How the server introduces itself, and how a client logs in: PLAIN, AMQPLAIN and EXTERNAL.

PLAIN     NUL name NUL password
AMQPLAIN  the fields LOGIN and PASSWORD of a table, without the table's length
EXTERNAL  the name that is asked for, or nothing: the certificate says who it is

What a response says is parsed here, whether it is true is not decided here.
"""

import platform
from collections.abc import Callable
from typing import Any

from leveret.core.tables import MalformedTable, decode_table
from leveret.security.authentication import TOKEN_BYTES_MAX, Credentials
from leveret.version import version
from leveret.wire.replies import ProtocolError, Reply

NAME_BYTES_MAX = 255
RESPONSE_BYTES_MAX = TOKEN_BYTES_MAX + NAME_BYTES_MAX + 64
"""Before the login a client gets little memory; but a web token, with a name and what is around them, has to fit."""
PRODUCT = "Leveret"
CAPABILITIES = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)
LOCALES = b"en_US"
PASSWORD_MECHANISMS = ("PLAIN", "AMQPLAIN")
CERTIFICATE_MECHANISM = "EXTERNAL"


def parse_response(mechanism: str, response: bytes) -> Credentials:
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


def server_properties(cluster_name: str) -> dict[str, Any]:
    """What connection.start says about this server; some clients choose their behaviour by it."""
    return {
        "capabilities": dict.fromkeys(CAPABILITIES, True),
        "cluster_name": cluster_name,
        "copyright": "Copyright the Leveret authors",
        "information": "Licensed under the Apache License 2.0",
        "platform": f"Python {platform.python_version()}",
        "product": PRODUCT,
        "version": version(),
    }


def mechanisms(has_certificate: bool) -> tuple[str, ...]:
    """How a client may say who it is."""
    return (*PASSWORD_MECHANISMS, CERTIFICATE_MECHANISM) if has_certificate else PASSWORD_MECHANISMS
