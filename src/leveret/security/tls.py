"""TLS of a server: its certificate, which clients it trusts, and the name that a client's certificate stands for."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from leveret.security import der
from leveret.security.der import BadCertificate
from leveret.security.distinguished_names import written
from leveret.security.revocation import VERSION, check_revocation

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
