import ssl
from pathlib import Path

import pytest

from leveret.security.tls import BadCertificate, Certificates, certificate_name
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


@pytest.mark.parametrize(
    ("certificate", "name"),
    [
        (None, None),
        ({}, None),
        (subject("alice"), "alice"),
        (subject("alice") | {"subjectAltName": (("DNS", "bob"),)}, "alice"),
        (subject() | {"subjectAltName": (("DNS", "bob"), ("IP Address", "127.0.0.1"))}, "bob"),
        (subject() | {"subjectAltName": (("email", "bob@example.org"),)}, "bob@example.org"),
        (subject("alice", "admin"), None),
        (subject() | {"subjectAltName": (("DNS", "bob"), ("DNS", "admin"))}, None),
    ],
)
def test_a_certificate_stands_for_its_one_name(certificate: dict[str, object] | None, name: str | None) -> None:
    assert certificate_name(certificate) == name
