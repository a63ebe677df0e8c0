"""TLS of servers, of clients and between nodes: certificates, whom to trust, and the name of the user in one.

files -> load (a thread) -> use (the loop): next handshakes use it, connections of revoked certificates are closed
"""

import asyncio
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, cast
from weakref import WeakKeyDictionary

from leveret.core.errors import AccessRefused
from leveret.security import der
from leveret.security.der import BadCertificate
from leveret.security.distinguished_names import written
from leveret.security.revocation import (
    VERSION,
    CertificateId,
    ListsVersion,
    RevocationFile,
    certificate_id,
    check_revocation,
)

LoginFrom = Literal["common_name", "distinguished_name", "subject_alternative_name"]
AlternativeType = Literal["dns", "email", "uri", "ip"]

ALTERNATIVES = {"dns": "DNS", "email": "email", "uri": "URI", "ip": "IP Address"}
"""Types of alternative names, and what OpenSSL calls them."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files that a server's side of TLS is made from."""

    cert: str
    key: str | None = None
    client_ca: str | None = None
    verify_client: bool = False
    crl: str | None = None

    def context(self) -> ssl.SSLContext:
        """What handshakes use; made anew to read the files again."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A client could make the server work for ever by asking for new keys.
        context.options |= ssl.OP_NO_RENEGOTIATION
        read(lambda: context.load_cert_chain(self.cert, self.key), f"the certificate {self.cert}")
        if self.client_ca is not None:
            client_ca, crl = self.client_ca, self.crl
            read(lambda: context.load_verify_locations(client_ca), f"the certificates of {client_ca}")
            context.verify_mode = ssl.CERT_REQUIRED if self.verify_client else ssl.CERT_OPTIONAL
            if crl is not None:
                read(lambda: check_revocation(context, crl), f"the revocation lists of {crl}")
        return context

    def ends_ms(self) -> int | None:
        """Until when the certificate is valid; None when the file does not tell."""
        found = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", _text(self.cert), re.DOTALL)
        return None if found is None else _validity_ms(ssl.PEM_cert_to_DER_cert(found[0]))


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _validity_ms(certificate: bytes) -> int:
    """The second time of the validity: of what is signed, after version, serial number, algorithm and issuer."""
    body = der.parts(der.parts(certificate)[0][1])[0][1]
    fields = [value for tag, value in der.parts(body) if tag != VERSION]
    return der.time_ms(*der.parts(fields[3])[1])


def read(load: Any, what: str) -> None:
    """Load a file; say what is wrong with it."""
    try:
        load()
    except ssl.SSLError as error:
        raise BadCertificate(f"{what} cannot be used ({error.reason}): give PEM files whose key fits") from None
    except OSError as error:
        raise BadCertificate(f"{what} or its key cannot be read: {error.strerror}") from None


@dataclass(frozen=True, slots=True)
class CertificateNames:
    """Which name of a client's certificate is the name of its user."""

    login_from: LoginFrom = "common_name"
    alternative: AlternativeType = "dns"
    """The type of alternative names that counts, if these do."""

    def name(self, certificate: Mapping[str, Any] | None) -> str | None:
        """The user name in a verified certificate; None when it has none, or several.

        Of two names it would be chance, or the client, that decides which one counts.
        """
        if not certificate:
            return None
        subject = certificate.get("subject", ())
        if self.login_from == "distinguished_name":
            return written(subject) or None
        alternatives = certificate.get("subjectAltName", ())
        if self.login_from == "subject_alternative_name":
            return _only([value for kind, value in alternatives if kind == ALTERNATIVES[self.alternative]])
        common = [value for part in subject for kind, value in part if kind == "commonName"]
        # Without any common name, whatever else names one client and no machine's address.
        return _only(common or [value for kind, value in alternatives if kind in ("DNS", "email", "URI")])


def _only(names: list[str]) -> str | None:
    return names[0] if len(names) == 1 else None


class ClientTls:
    """The side that calls."""

    def __init__(self, authority: str | None, cert: str | None = None, key: str | None = None) -> None:
        """Read the files, in PEM; without an authority those of the machine count. Raises BadCertificate."""
        self._cert, self._key = cert, key
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        if authority is None:
            self.context.load_default_certs()
        else:
            read(lambda: self.context.load_verify_locations(authority), f"the certificates of {authority}")
        self.reload()

    def reload(self) -> None:
        """Show the certificate that the files have now, from the next handshake on; a bad one changes nothing."""
        cert = self._cert
        if cert is not None:
            read(lambda: self.context.load_cert_chain(cert, self._key), f"the certificate {cert}")


class Client(Protocol):
    """A connection whose client may have a certificate."""

    def abort(self) -> None: ...  # close at once


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


class MutualTls:
    """Both sides of one node: each shows a certificate of one authority, and the caller checks the name it called."""

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
    """What only the two ends of this TLS connection know; empty without TLS. Raises AccessRefused if there is none.

    It is the Finished message of the client. In TLS 1.3 that is an HMAC (SHA-256 or SHA-384, not truncated) over the
    whole handshake, with both key shares and both certificates, by a key that comes from the Diffie-Hellman exchange of
    this connection. An attacker that ends TLS on both sides has two connections with two of them, whatever certificates
    and keys it has; to make them equal it would have to find a collision. A proof that covers the binding is therefore
    of no use on another connection.

    Python's ssl gives it as "tls-unique". RFC 5929 defines that for TLS 1.2, where it has weaknesses (12 bytes, and no
    protection from a triple handshake), and RFC 8446 defines no binding for TLS 1.3 because exporters are preferred;
    hence TLS 1.3 is required here. The exporter (RFC 9266, tls-exporter) would be as good, but ssl does not offer it:
    OpenSSL by ctypes would depend on the layout of a private structure, and pyOpenSSL would replace the TLS of the
    event loop. The hashes of both certificates (tls-server-end-point, and the same of the client) would be weaker:
    nodes that share one certificate have the same binding on every connection.
    """
    if tls is None:
        return b""
    finished = tls.get_channel_binding("tls-unique")
    if tls.version() != "TLSv1.3" or not finished:
        raise AccessRefused(f"{tls.version()} without a channel binding between nodes: use TLS 1.3 on both")
    return b"finished:" + finished
