"""TLS of the listeners of a server while it runs: the context of the next handshake, and which certificates were shown.

files -> load (a thread) -> use (the loop): next handshakes use it, connections of revoked certificates are closed
"""

import asyncio
import ssl
from typing import NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

from leveret.security.revocation import CertificateId, certificate_id
from leveret.security.revocation_file import ListsVersion, RevocationFile
from leveret.security.tls import CertificateNames, Certificates


class Client(Protocol):
    """A connection whose client may have a certificate."""

    def abort(self) -> None:
        """Close at once."""


class Loaded(NamedTuple):
    """What the files had when they were read."""

    context: ssl.SSLContext
    version: ListsVersion | None
    """Of the revocation lists."""


class ServerTls:
    """Used in one thread, the event loop's, but for `load`."""

    def __init__(self, files: Certificates, names: CertificateNames | None = None) -> None:
        """Read the files; raises BadCertificate."""
        self.files = files
        self.crl = None if files.crl is None else RevocationFile(files.crl)
        self.context = files.context()
        """For the next handshake."""
        self._names = names or CertificateNames()
        self._clients: WeakKeyDictionary[Client, CertificateId] = WeakKeyDictionary()

    def load(self) -> Loaded:
        """Read the files again, in any thread; raises BadCertificate."""
        version = None if self.crl is None else self.crl.load()
        return Loaded(self.files.context(), version)

    def use(self, loaded: Loaded) -> int:
        """Shake hands by what was loaded; close the connections of certificates that are revoked by now; count them.

        A context has its own session tickets: a client cannot resume a session of an earlier one.
        """
        self.context = loaded.context
        if self.crl is None or loaded.version is None:
            return 0
        self.crl.use(loaded.version)
        revoked = [client for client, known in self._clients.items() if self.crl.names(known)]
        for client in revoked:
            client.abort()
        return len(revoked)

    def name(self, client: Client, transport: asyncio.BaseTransport) -> str | None:
        """The user name in the certificate that a client has shown; None: there is none that counts."""
        shown = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if shown is None:
            return None
        if self.crl is not None:
            self._clients[client] = known = certificate_id(shown)
            if self.crl.names(known):  # its handshake had begun before the list was there
                cast("asyncio.Transport", transport).abort()
                return None
        return self._names.name(transport.get_extra_info("peercert"))
