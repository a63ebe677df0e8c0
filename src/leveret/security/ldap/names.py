"""Addresses of hosts, looked up before a deadline: the resolver of the machine may take as long as it likes."""

import socket
import time
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any

KEPT_S = 60.0

Address = tuple[socket.AddressFamily, Any]


class HostNames:
    """What was looked up is used again for a minute, and longer while nothing newer can be had."""

    def __init__(self) -> None:
        self._mutex = Lock()
        self._asking: dict[tuple[str, int], Future[list[Address]]] = {}
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}

    def addresses(self, host: str, port: int, deadline_s: float) -> list[Address]:
        """The addresses of a host; none if they are not known in time."""
        key = (host, port)
        known = self._known.get(key)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        try:
            found = self._ask(key).result(max(0.0, deadline_s - time.monotonic()))
        except (OSError, UnicodeError, TimeoutError):
            return [] if known is None else known[1]
        self._known[key] = (time.monotonic() + KEPT_S, found)
        return found

    def _ask(self, key: tuple[str, int]) -> "Future[list[Address]]":
        """Look a name up in a thread of its own; one at a time for each, so that none pile up."""
        with self._mutex:
            if key not in self._asking:
                self._asking[key] = Future()
                Thread(target=self._resolve, args=(key,), name="leveret-names", daemon=True).start()
            return self._asking[key]

    def _resolve(self, key: tuple[str, int]) -> None:
        with self._mutex:
            answer = self._asking[key]
        try:
            found = socket.getaddrinfo(*key, type=socket.SOCK_STREAM)
            answer.set_result([(family, address) for family, _, _, _, address in found])
        except Exception as error:
            answer.set_exception(error)
        with self._mutex:
            del self._asking[key]
