import ssl
from pathlib import Path

import pytest
from cryptography import x509

from leveret.security.der import BadCertificate
from leveret.security.tls import AlternativeType, CertificateNames, Certificates
from tests.server.certificates import Authority


def test_old_versions_of_tls_are_not_spoken(tmp_path: Path) -> None:
    identity = Authority(tmp_path).issue("localhost")
    context = Certificates(str(identity.cert), str(identity.key)).context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(("verify_client", "mode"), [(False, ssl.CERT_OPTIONAL), (True, ssl.CERT_REQUIRED)])
def test_clients_are_checked_against_their_authority(tmp_path: Path, verify_client: bool, mode: ssl.VerifyMode) -> None:
    authority = Authority(tmp_path)
    identity = authority.issue("localhost")
    files = Certificates(str(identity.cert), str(identity.key), str(authority.cert), verify_client)
    assert files.context().verify_mode == mode


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    one, other = authority.issue("one", file="one"), authority.issue("other", file="other")
    with pytest.raises(BadCertificate, match=r"one\.pem cannot be used \(KEY_VALUES_MISMATCH\)"):
        Certificates(str(one.cert), str(other.key)).context()
    with pytest.raises(BadCertificate, match="cannot be read: No such file"):
        Certificates(str(tmp_path / "nowhere.pem")).context()
    with pytest.raises(BadCertificate, match=r"one\.key cannot be used"):
        Certificates(str(one.cert), str(one.key), str(one.key)).context()


def subject(*names: str) -> dict[str, object]:
    return {"subject": ((("organizationName", "Test"),), *((("commonName", name),) for name in names))}


def alternative(*names: tuple[str, str]) -> dict[str, object]:
    return {"subjectAltName": names}


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, None),
        ({}, None),
        (subject("alice"), "alice"),
        (subject("alice") | alternative(("DNS", "bob")), "alice"),
        (subject() | alternative(("DNS", "bob"), ("IP Address", "127.0.0.1")), "bob"),
        (subject() | alternative(("email", "bob@example.org")), "bob@example.org"),
        (subject("alice", "admin"), None),
        (subject("alice", "admin") | alternative(("DNS", "bob")), None),
        (subject() | alternative(("DNS", "bob"), ("DNS", "admin")), None),
        (subject("alice\0.example.org"), "alice\0.example.org"),
    ],
)
def test_a_certificate_stands_for_its_one_name(certificate: dict[str, object] | None, name: str | None) -> None:
    assert CertificateNames().name(certificate) == name


SEVERAL = subject("alice") | alternative(
    ("DNS", "bob"), ("email", "bob@example.org"), ("URI", "spiffe://example/bob"), ("IP Address", "192.0.2.7")
)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("dns", "bob"), ("email", "bob@example.org"), ("uri", "spiffe://example/bob"), ("ip", "192.0.2.7")],
)
def test_an_alternative_name_of_one_type(kind: AlternativeType, name: str) -> None:
    names = CertificateNames("subject_alternative_name", kind)
    assert names.name(SEVERAL) == name
    assert names.name(subject("alice")) is None
    assert names.name(SEVERAL | {"subjectAltName": (("DNS", "a"), ("email", "a"), ("URI", "a")) * 2}) is None


def test_the_distinguished_name_is_written_as_in_rfc_4514() -> None:
    names = CertificateNames("distinguished_name")
    certificate = {
        "subject": (
            (("countryName", "DE"),),
            (("organizationName", "Sue, Grabbit and Runn"),),
            (("commonName", " #alice+x "), ("userId", 'a"<>;\\b')),
            (("emailAddress", "a@example.org"),),
        )
    }
    written = 'emailAddress=a@example.org,CN=\\ #alice\\+x\\ +UID=a\\"\\<\\>\\;\\\\b,O=Sue\\, Grabbit and Runn,C=DE'
    assert names.name(certificate) == written
    assert names.name(subject("#1\0")) == "CN=\\#1\\00,O=Test"
    assert names.name({"subject": ()}) is None


def test_the_distinguished_name_is_what_cryptography_reads(tmp_path: Path) -> None:
    """Python gives the parts of a name as OpenSSL has them: the same text comes out as from another parser."""
    identity = Authority(tmp_path).issue("Lučić, A.", file="named")
    certificate = x509.load_pem_x509_certificate(identity.cert.read_bytes())
    decoded = ssl._ssl._test_decode_cert(str(identity.cert))  # type: ignore[attr-defined]
    assert CertificateNames("distinguished_name").name(decoded) == certificate.subject.rfc4514_string()
