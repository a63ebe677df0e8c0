"""Files of TLS, read again while the server runs: all of them at SIGHUP, revocation lists whenever they are written."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from leveret.clock import Clock
from leveret.core.errors import LeveretError
from leveret.observability.logs import Log
from leveret.security.revocation import RevocationFile
from leveret.security.tls import ClientTls, MutualTls, ServerTls

LOOK_S = 5.0  # between two looks at the files of revocation lists
CLIENTS = "clients"

LOG = Log("server")
Reloaded = ClientTls | MutualTls
"""Certificates that are read again in place."""


class TlsFiles:
    """What of a server is made from files of TLS."""

    def __init__(self, tls: ServerTls | None, clock: Clock) -> None:
        self._tls = tls
        self._clock = clock
        self._asked = asyncio.Event()
        self._others: dict[str, tuple[Reloaded, Callable[[], object]]] = {}
        self._failed: dict[str, str] = {}
        """Why files could not be read again when that was tried last."""
        self.lists: dict[str, RevocationFile] = {}
        """Files of revocation lists by what they are about."""
        if tls is not None and tls.crl is not None:
            self.lists[CLIENTS] = tls.crl

    def add(self, name: str, files: Reloaded, crl: RevocationFile | None, then: Callable[[], object]) -> None:
        """Read others again as well; `then` is called after that."""
        self._others[name] = (files, then)
        if crl is not None:
            self.lists[name] = crl

    def reload(self) -> None:
        self._asked.set()

    def certificate_ends_ms(self) -> int | None:
        """Until when the certificate of the server is valid; None: there is none, or its file does not tell."""
        return None if self._tls is None else self._tls.files.ends_ms()

    def lists_end_ms(self) -> Mapping[str, int]:
        """When revocation lists expire, by what they are about."""
        found = {name: crl.next_update_ms for name, crl in self.lists.items()}
        return {name: at_ms for name, at_ms in found.items() if at_ms is not None}

    async def run(self) -> None:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), LOOK_S if self.lists else None)
            everything = self._asked.is_set()
            self._asked.clear()
            if everything:
                self._failed.clear()
            if self._tls is not None and (everything or self._is_due(CLIENTS)):
                await self._reload_listeners(self._tls)
            for name, (files, then) in self._others.items():
                if everything or self._is_due(name):
                    self._reload(name, files, then)

    def _is_due(self, name: str) -> bool:
        """Whether revocation lists were written, or have just expired: no session may be resumed after that."""
        crl = self.lists.get(name)
        if crl is None:
            return False
        now_ms = self._clock.now_ms()
        expiry = crl.expiry(now_ms)
        if expiry == "soon":
            ends_s = ((crl.next_update_ms or 0) - now_ms) // 1_000
            LOG.warning("revocation list expires soon", file=crl.path, ends_s=ends_s, advice="put a new list there")
        elif expiry == "expired":
            advice = "certificates are refused until the file has a new list"
            LOG.error("revocation list expired", file=crl.path, advice=advice)
        return expiry == "expired" or crl.is_stale

    async def _reload_listeners(self, tls: ServerTls) -> None:
        """Make a new context in a thread: revocation lists may be large."""
        try:
            closed = tls.use(await asyncio.to_thread(tls.load))
        except LeveretError as error:
            self._fail(CLIENTS, error)
        else:
            self._failed.pop(CLIENTS, None)
            LOG.info("certificates read again", of=CLIENTS)
            if closed:
                LOG.warning("connections closed", count=closed, reason="their certificates are revoked")

    def _reload(self, name: str, files: Reloaded, then: Callable[[], object]) -> None:
        """Read certificates again in place: in the loop, which is the only one that uses them."""
        try:
            files.reload()
        except LeveretError as error:
            self._fail(name, error)
        else:
            self._failed.pop(name, None)
            LOG.info("certificates read again", of=name)
            then()

    def _fail(self, name: str, error: LeveretError) -> None:
        """Log why the old files stay in use, once: lists that were written are tried at each look."""
        if self._failed.get(name) != str(error):
            self._failed[name] = str(error)
            LOG.error("certificates not read again", of=name, reason=error)
