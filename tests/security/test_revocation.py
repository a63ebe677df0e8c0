"""Revocation lists as they are read: which certificates they name, when they expire, and files that are not lists."""

import datetime
import os
import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509

from leveret.security import revocation
from leveret.security.der import BadCertificate
from leveret.security.revocation import RevocationFile, certificate_id, read_lists
from tests.server.certificates import DAY, Authority, Identity

HOUR = datetime.timedelta(hours=1)


def der_of(identity: Identity) -> bytes:
    return ssl.PEM_cert_to_DER_cert(identity.cert.read_text())


def ends_ms(path: Path) -> int:
    ends = x509.load_pem_x509_crl(path.read_bytes()).next_update_utc
    assert ends is not None
    return int(ends.timestamp() * 1_000)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_a_list_names_certificates_by_issuer_and_serial_number(authority: Authority, tmp_path: Path) -> None:
    alice, bob = authority.issue("alice", file="alice"), authority.issue("bob", file="bob")
    small = [1, 127, 128, 255, 256, 2**159 - 1]  # numbers of one byte, with a leading zero, and of the largest size
    lists = read_lists(str(authority.revoke([alice, *small])))
    assert lists.names(certificate_id(der_of(alice)))
    assert not lists.names(certificate_id(der_of(bob)))
    (serials,) = lists.revoked.values()
    assert {int.from_bytes(each, signed=True) for each in serials} == {alice.serial, *small}
    stranger = Authority(tmp_path, "Another Authority")
    same_number = read_lists(str(stranger.revoke([alice], "other.crl")))
    assert not same_number.names(certificate_id(der_of(alice)))


def test_an_empty_list_names_nothing(authority: Authority) -> None:
    path = authority.revoke()
    lists = read_lists(str(path))
    assert list(lists.revoked.values()) == [frozenset()]
    assert lists.next_update_ms == ends_ms(path)


def test_of_several_lists_the_newest_of_each_issuer_counts(authority: Authority, tmp_path: Path) -> None:
    alice, bob = authority.issue("alice", file="alice"), authority.issue("bob", file="bob")
    old = authority.revoke([alice], "old.crl", ends=HOUR, age=DAY)
    new = authority.revoke([bob], "new.crl", ends=2 * DAY, age=HOUR)
    other = Authority(tmp_path, "Another Authority").revoke([5], "other.crl", ends=DAY)
    together = tmp_path / "all.crl"
    together.write_bytes(b"# of everybody\n" + new.read_bytes() + old.read_bytes() + other.read_bytes())
    lists = read_lists(str(together))
    assert lists.names(certificate_id(der_of(bob)))
    assert not lists.names(certificate_id(der_of(alice)))
    assert sum(map(len, lists.revoked.values())) == 2
    assert lists.next_update_ms == ends_ms(other)


@pytest.mark.parametrize(
    ("age", "warning_ms"), [(HOUR, 25 * 3_600_000 // 4), (30 * DAY, 24 * 3_600_000), (datetime.timedelta(), 21_600_000)]
)
def test_a_warning_comes_in_the_last_quarter_and_at_most_a_day_before(
    authority: Authority, age: datetime.timedelta, warning_ms: int
) -> None:
    lists = read_lists(str(authority.revoke(age=age)))
    end = lists.next_update_ms
    assert end is not None
    assert lists.warning_ms == warning_ms
    assert not lists.is_due(end - warning_ms - 1)
    assert lists.is_due(end - warning_ms)
    assert not lists.has_expired(end - 1)
    assert lists.has_expired(end)


def test_files_that_are_no_lists_are_refused(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = authority.revoke([authority.issue("alice")])
    with pytest.raises(BadCertificate, match="cannot be read: No such file"):
        read_lists(str(tmp_path / "nowhere.crl"))
    with pytest.raises(BadCertificate, match="there is no revocation list"):
        read_lists(str(authority.cert))
    text = path.read_text()
    lines = text.splitlines()
    for damaged in (
        "\n".join([lines[0], *lines[2:]]),
        "\n".join([*lines[:-2], lines[-1]]),
        "-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----",
        "-----BEGIN X509 CRL-----\n-----END X509 CRL-----",
        "-----BEGIN X509 CRL-----\nMP8=\n-----END X509 CRL-----",
    ):
        (tmp_path / "damaged.crl").write_text(damaged)
        with pytest.raises(BadCertificate, match="is damaged: get it again"):
            read_lists(str(tmp_path / "damaged.crl"))
    monkeypatch.setattr(revocation, "FILE_BYTES_MAX", len(text) - 1)
    with pytest.raises(BadCertificate, match=rf"has over {len(text) - 1} bytes"):
        read_lists(str(path))


def test_a_file_that_is_written_is_stale(authority: Authority) -> None:
    alice = authority.issue("alice")
    path = authority.revoke()
    known = RevocationFile(str(path))
    assert not known.is_stale
    assert not known.revokes(der_of(alice))
    authority.revoke([alice])
    assert known.is_stale
    known.use(known.load())
    assert not known.is_stale
    assert known.revokes(der_of(alice))
    os.utime(path, ns=(1, 1))
    assert known.is_stale
    path.unlink()
    assert not known.is_stale  # what there was counts until there is another one


def test_expiry_is_told_once_before_and_once_after(authority: Authority) -> None:
    known = RevocationFile(str(authority.revoke(ends=HOUR)))
    end = known.next_update_ms
    assert end is not None
    now_ms = int(time.time() * 1_000)
    times_ms = (now_ms, end - 1, end - 1, end, end + 1)
    assert [known.expiry(at_ms) for at_ms in times_ms] == [None, "soon", None, "expired", None]
    authority.revoke(ends=2 * HOUR)
    known.use(known.load())
    assert known.expiry(end) is None
    assert known.expiry(end + 3_600_000) == "expired"
