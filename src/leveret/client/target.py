"""What a client is told when it is made: which servers, as whom, how long and how often to ask."""

from __future__ import annotations

import secrets
import ssl
from typing import Any, TypedDict, Unpack

from leveret.client.address import Address
from leveret.client.calls import ClientCall
from leveret.client.retry import REQUEST_S, RETRIES, RetryAttempts
from leveret.client.servers import servers_of
from leveret.client.wire import request_bytes
from leveret.core.errors import InvalidArgument

URL = "http://127.0.0.1:15672"


class ClientOptions(TypedDict, total=False):
    """What can be said beside the URL."""

    token: str | None
    """An API key or a JSON Web Token, in place of a user and a password in the URL."""
    tls: ssl.SSLContext | None
    timeout: float
    """In seconds, for each attempt."""
    retries: int
    idempotent: bool
    """False: messages carry no key, and one whose fate is unknown raises Unreachable instead of being sent again."""
    vhost: str | None
    """The virtual host, "/" unless told otherwise."""


class ClientTarget:
    """Servers to ask; clients for threads and for asyncio differ only in how they wait for it."""

    def __init__(self, url: str, **options: Unpack[ClientOptions]) -> None:
        unknown = options.keys() - ClientOptions.__annotations__.keys()
        if unknown:
            known = ", ".join(ClientOptions.__annotations__)
            raise InvalidArgument(f"a client has the options {known}, not {', '.join(sorted(unknown))}")
        self.servers = servers_of(url, options.get("token"), options.get("tls"), options.get("vhost"))
        self.timeout_s = options.get("timeout", REQUEST_S)
        self._retries = options.get("retries", RETRIES)
        self._idempotent = options.get("idempotent", True)

    def request(self, call: ClientCall[Any], address: Address) -> bytes:
        """A call as bytes, the same for each attempt at one server."""
        return request_bytes(call.method, address.target(call.path), address.head, call.body, call.key)

    def attempts(self) -> RetryAttempts:
        """How often to try."""
        return RetryAttempts(self._retries)

    def new_key(self) -> str | None:
        """What makes the attempts to send a message the same one."""
        return secrets.token_hex(16) if self._idempotent else None
