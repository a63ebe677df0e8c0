"""TLS between nodes: each shows a certificate of one authority, and the caller checks the name that it called.

The channel binding is what both ends know of their TLS connection and no other connection has: the Finished message of
the client. In TLS 1.3 that is an HMAC (SHA-256 or SHA-384, not truncated) over the whole handshake, with both key
shares and both certificates, by a key that comes from the Diffie-Hellman exchange of this connection. An attacker that
ends TLS on both sides has two connections with two of them, whatever certificates and keys it has; to make them equal
it would have to find a collision. A proof that covers the binding is therefore of no use on another connection.

It is what Python's ssl gives as "tls-unique". RFC 5929 defines that for TLS 1.2, where it has weaknesses (12 bytes, and
no protection from a triple handshake), and RFC 8446 defines no binding for TLS 1.3 because exporters are preferred;
hence TLS 1.3 is required here. The exporter (RFC 9266, tls-exporter) would be as good, but ssl does not offer it:
OpenSSL by ctypes would depend on the layout of a private structure, and pyOpenSSL would replace the TLS of the event
loop. The hashes of both certificates (tls-server-end-point, and the same of the client) would be weaker: nodes that
share one certificate have the same binding on every connection.
"""

import ssl

from leveret.core.errors import AccessRefused
from leveret.security.client_tls import ClientTls
from leveret.security.revocation import check_revocation
from leveret.security.revocation_file import RevocationFile
from leveret.security.tls import Certificates, read


class MutualTls:
    """Both sides of one node."""

    def __init__(self, cert: str, key: str, authority: str, crl: str | None = None) -> None:
        """Read the files, in PEM; raises BadCertificate for what cannot be used."""
        self._files = Certificates(cert, key, authority, verify_client=True, crl=crl)
        self._authority = authority
        self.crl = None if crl is None else RevocationFile(crl)
        self.accepting, self.calling = self._contexts()

    def reload(self) -> None:
        """Read the files again, for the next handshake; a bad one changes nothing."""
        version = None if self.crl is None else self.crl.load()
        self.accepting, self.calling = self._contexts()
        if self.crl is not None and version is not None:
            self.crl.use(version)

    def _contexts(self) -> tuple[ssl.SSLContext, ssl.SSLContext]:
        """For connections from other nodes, and to them."""
        accepting = self._files.context()
        calling = ClientTls(self._authority, self._files.cert, self._files.key).context
        for context in (accepting, calling):
            context.minimum_version = ssl.TLSVersion.TLSv1_3
        accepting.num_tickets = 0  # a session that is resumed would outlive the certificate that began it
        crl = self._files.crl
        if crl is not None:
            read(lambda: check_revocation(calling, crl), f"the revocation lists of {crl}")
        return accepting, calling


def channel_binding(tls: ssl.SSLObject | None) -> bytes:
    """What only the two ends of this TLS connection know; empty without TLS. Raises AccessRefused if there is none."""
    if tls is None:
        return b""
    finished = tls.get_channel_binding("tls-unique")
    if tls.version() != "TLSv1.3" or not finished:
        raise AccessRefused(f"{tls.version()} without a channel binding between nodes: use TLS 1.3 on both")
    return b"finished:" + finished
