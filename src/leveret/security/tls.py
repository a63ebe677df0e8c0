"""TLS of a server: its certificate, which clients it trusts, and the name that a client's certificate stands for."""

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from leveret.core.errors import InvalidArgument

ALTERNATIVES = ("DNS", "email", "URI")
VERSION, GENERALIZED_TIME = 0xA0, 0x18  # tags of DER


class BadCertificate(InvalidArgument):
    """A certificate or its key cannot be read, or they do not belong together."""


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files that a server's side of TLS is made from."""

    cert: str
    key: str | None = None
    client_ca: str | None = None
    verify_client: bool = False

    def context(self) -> ssl.SSLContext:
        """What handshakes use; made anew to read the files again."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A client could make the server work for ever by asking for new keys.
        context.options |= ssl.OP_NO_RENEGOTIATION
        read(lambda: context.load_cert_chain(self.cert, self.key), f"the certificate {self.cert}")
        if self.client_ca is not None:
            client_ca = self.client_ca
            read(lambda: context.load_verify_locations(client_ca), f"the certificates of {client_ca}")
            context.verify_mode = ssl.CERT_REQUIRED if self.verify_client else ssl.CERT_OPTIONAL
        return context

    def ends_ms(self) -> int | None:
        """Until when the certificate is valid; None when the file does not tell."""
        found = re.search(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", _text(self.cert), re.DOTALL)
        return None if found is None else _validity_ms(ssl.PEM_cert_to_DER_cert(found[0]))


def _text(path: str) -> str:
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def _validity_ms(der: bytes) -> int:
    """The second time of the validity: of what is signed, after version, serial number, algorithm and issuer."""
    body = _parts(_parts(der)[0][1])[0][1]
    fields = [value for tag, value in _parts(body) if tag != VERSION]
    tag, text = _parts(fields[3])[1]
    years = "" if tag == GENERALIZED_TIME else "20" if text[:2] < b"50" else "19"
    ends = datetime.strptime(years + text.decode("ascii"), "%Y%m%d%H%M%SZ")
    return int(ends.replace(tzinfo=UTC).timestamp() * 1_000)


def _parts(data: bytes) -> list[tuple[int, bytes]]:
    """The tags and values that lie side by side in DER."""
    found, at = [], 0
    while at < len(data):
        tag, size, start = data[at], data[at + 1], at + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[at + 2 : start])
        found.append((tag, data[start : start + size]))
        at = start + size
    return found


def read(load: Any, what: str) -> None:
    """Load a file; say what is wrong with it."""
    try:
        load()
    except ssl.SSLError as error:
        raise BadCertificate(f"{what} cannot be used ({error.reason}): give PEM files whose key fits") from None
    except OSError as error:
        raise BadCertificate(f"{what} or its key cannot be read: {error.strerror}") from None


def certificate_name(certificate: Mapping[str, Any] | None) -> str | None:
    """Whom a verified certificate stands for: its one common name, or else its one alternative name."""
    if not certificate:
        return None
    common = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    others = [value for key, value in certificate.get("subjectAltName", ()) if key in ALTERNATIVES]
    # Of two names it would be chance, or the client, that decides which one counts.
    return next((names[0] for names in (common, others) if len(names) == 1), None)
