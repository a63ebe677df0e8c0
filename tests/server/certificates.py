"""Certificates for tests: an authority, and what it signed."""

import datetime
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, on files."""

    cert: Path
    key: Path

    @property
    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.cert.read_bytes()).serial_number


class Authority:
    """Signs certificates."""

    def __init__(self, folder: Path, name: str = "Test Authority") -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        own = self._builder(self._name, self._key.public_key())
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.cert = folder / f"{name.replace(' ', '-').lower()}.pem"
        self.cert.write_bytes(self._signed(own))

    def revoke(
        self,
        revoked: Iterable[Identity | int] = (),
        file: str = "revoked.crl",
        *,
        ends: datetime.timedelta = DAY,
        age: datetime.timedelta = datetime.timedelta(hours=1),
    ) -> Path:
        """A revocation list of this authority; written under another name first, as an operator should."""
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateRevocationListBuilder().issuer_name(self._name).last_update(now - age)
        builder = builder.next_update(now + ends)
        for each in revoked:
            serial = each if isinstance(each, int) else each.serial
            entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now - DAY)
            reason = x509.CRLReason(x509.ReasonFlags.key_compromise)
            builder = builder.add_revoked_certificate(entry.add_extension(reason, critical=False).build())
        builder = builder.add_extension(x509.CRLNumber(int(now.timestamp() * 1_000)), critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        path = self._folder / file
        (self._folder / f"{file}.new").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        (self._folder / f"{file}.new").rename(path)
        return path

    def issue(self, common_name: str | None, alternatives: tuple[str, ...] = (), file: str = "issued") -> Identity:
        """A certificate for a name, or for alternative names only."""
        names = [x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)] if common_name else []
        key = ec.generate_private_key(ec.SECP256R1())
        others = [x509.DNSName(name) for name in alternatives] + [x509.IPAddress(ip_address("127.0.0.1"))]
        builder = self._builder(x509.Name(names), key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
        identity = Identity(self._folder / f"{file}.pem", self._folder / f"{file}.key")
        identity.cert.write_bytes(self._signed(builder))
        identity.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return identity

    def _builder(self, name: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(self._name).public_key(key)
        return builder.serial_number(x509.random_serial_number()).not_valid_before(now - DAY).not_valid_after(now + DAY)

    def _signed(self, builder: x509.CertificateBuilder) -> bytes:
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
