"""Sessions of browsers: how they begin and end, and what a change must carry."""

import json
import os
import secrets
import zlib
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.clock import ManualClock
from leveret.protocols.http import sessions
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.sessions import (
    AGE_MS_MAX,
    COOKIE,
    IDLE_MS_MAX,
    SessionFile,
    Sessions,
    cookie,
    cookie_line,
    cookie_name,
)
from leveret.security.access import Access
from leveret.security.authentication import identity_of
from leveret.security.identity import Identity
from leveret.security.passwords import Cost, hash_password

CHEAP = Cost(n=2, r=1, p=1)


@pytest.fixture
def access() -> Iterator[Access]:
    with leveret.open() as broker:
        with broker.runtime as core:
            made = Access(core, cost=CHEAP)
            made.add_user("alice", hash_password("right", CHEAP), ["monitoring"])
        yield made


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000)


@pytest.fixture
def logins(access: Access, clock: ManualClock) -> Sessions:
    return Sessions(access.users, clock)


def asked(key: str, method: str = "GET", token: str | None = None) -> Request:
    headers = {b"cookie": f"other=1; {COOKIE}={key}; last=2".encode()}
    if token is not None:
        headers[b"x-csrf-token"] = token.encode()
    return Request(method, b"/x", headers, HttpPeer("127.0.0.1", 1))


def test_a_session_is_somebody_with_his_tags(logins: Sessions, access: Access) -> None:
    key, _ = logins.begin(identity_of(access.users.get("alice")))
    who = logins.identify(asked(key))
    assert who is not None
    assert (who.user, who.tags, who.scopes) == ("alice", frozenset({"monitoring"}), None)
    access.set_tags("alice", ["management"])
    again = logins.identify(asked(key))
    assert again is not None
    assert again.tags == {"management"}
    assert logins.identify(asked(key[:-1])) is None


def test_a_change_must_carry_the_token(logins: Sessions, access: Access) -> None:
    key, session = logins.begin(identity_of(access.users.get("alice")))
    for wrong in (None, "", "wrong", key):
        with pytest.raises(Refusal) as refused:
            logins.identify(asked(key, "DELETE", wrong))
        assert refused.value.status == 403
    assert logins.identify(asked(key, "DELETE", session.token)) is not None


def test_a_session_ends_when_it_is_idle_or_old(logins: Sessions, access: Access, clock: ManualClock) -> None:
    key, _ = logins.begin(identity_of(access.users.get("alice")))
    often_s = IDLE_MS_MAX // 1000 - 1
    for _ in range(AGE_MS_MAX // 1000 // often_s):
        clock.advance(often_s)
        assert logins.identify(asked(key)) is not None
    clock.advance(often_s)
    assert logins.identify(asked(key)) is None
    idle, _ = logins.begin(identity_of(access.users.get("alice")))
    clock.advance(IDLE_MS_MAX // 1000)
    assert logins.identify(asked(idle)) is None


def test_logging_out_ends_a_session(logins: Sessions, access: Access) -> None:
    key, session = logins.begin(identity_of(access.users.get("alice")))
    logins.end(session)
    assert logins.identify(asked(key)) is None


def test_a_new_password_and_a_deleted_user_end_sessions(logins: Sessions, access: Access) -> None:
    key, _ = logins.begin(identity_of(access.users.get("alice")))
    access.change_password("alice", hash_password("other", CHEAP))
    assert logins.identify(asked(key)) is None
    key, _ = logins.begin(identity_of(access.users.get("alice")))
    access.delete_user("alice")
    assert logins.identify(asked(key)) is None


def test_what_is_remembered_of_sessions_is_bounded(
    logins: Sessions, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "USED_MAX", 2)
    monkeypatch.setattr(sessions, "ENDED_PER_USER_MAX", 2)
    other, session = logins.begin(identity_of(access.users.get("guest")))
    logins.end(session)
    begun = [logins.begin(identity_of(access.users.get("alice"))) for _ in range(5)]
    keys = [key for key, _ in begun]
    assert all(logins.identify(asked(key)) for key in keys)
    for _, each in begun:
        logins.end(each)
    assert [logins.identify(asked(key)) is None for key in keys] == [False, False, False, True, True]
    assert logins.identify(asked(other)) is None


def test_every_node_with_the_key_takes_the_cookie(access: Access, clock: ManualClock) -> None:
    here, there = (Sessions(access.users, clock, (b"between us",)) for _ in range(2))
    key, session = here.begin(identity_of(access.users.get("alice")))
    found = there.identify(asked(key, "DELETE", session.token))
    assert found is not None
    assert found.user == "alice"
    stranger = Sessions(access.users, clock, (b"another",))
    assert stranger.identify(asked(key)) is None


def test_a_login_outlives_another_secret(access: Access, clock: ManualClock) -> None:
    old, both, new = (Sessions(access.users, clock, keys) for keys in ((b"o",), (b"n", b"o"), (b"n",)))
    for makes, takes in ((old, both), (both, old), (both, both), (both, new), (new, both)):
        key, session = makes.begin(identity_of(access.users.get("alice")))
        assert takes.identify(asked(key, "DELETE", session.token))
        other, another = makes.begin(identity_of(access.users.get("guest")))
        with pytest.raises(Refusal, match="token"):
            takes.identify(asked(key, "DELETE", another.token))
        (facts, signatures), forged = (key.split(".")[:4], key.split(".")[4:]), other.split(".")[4:]
        for more in (forged, ["x", "x", *signatures]):
            assert takes.find(asked(".".join([*facts, *more]))) is None
    for makes, takes in ((old, new), (new, old)):
        assert takes.find(asked(makes.begin(identity_of(access.users.get("alice")))[0])) is None


def test_a_renewed_cookie_tells_others_that_a_session_was_used(access: Access, clock: ManualClock) -> None:
    here, there = (Sessions(access.users, clock, (b"between us",)) for _ in range(2))
    key, _ = here.begin(identity_of(access.users.get("alice")))
    clock.advance(IDLE_MS_MAX // 1000 - 1)
    used = here.find(asked(key))
    assert used is not None
    clock.advance(2)
    assert there.find(asked(key)) is None
    assert there.find(asked(here.cookie_of(used))) is not None


@pytest.mark.parametrize("part", range(4))
def test_a_cookie_that_was_changed_is_none(part: int, logins: Sessions, access: Access) -> None:
    key, _ = logins.begin(identity_of(access.users.get("alice")))
    parts = key.split(".")
    parts[part] = {0: "Z3Vlc3Q=", 1: "9999999", 2: "9999999", 3: "x"}[part]
    assert logins.find(asked(".".join(parts))) is None


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites() -> None:
    by_tls = Request("POST", b"/x", {}, HttpPeer("127.0.0.1", 1, tls=True))
    name, line = cookie_line("abc", by_tls)
    assert name == "Set-Cookie"
    assert {"HttpOnly", "SameSite=Strict", "Secure", "Path=/"} <= set(line.split("; "))
    assert "Secure" not in cookie_line("abc", asked(""))[1]
    assert "Max-Age=0" in cookie_line("", asked(""))[1]


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("broker.example:15672", "leveret_session_15672"),
        ("[::1]:80", "leveret_session_80"),
        ("broker.example", "leveret_session"),
        ("[::1]", "leveret_session"),
        ("broker:1;x=2", "leveret_session"),
        ("broker:123456", "leveret_session"),
        ("", "leveret_session"),
    ],
)
def test_each_port_of_a_host_has_a_cookie_of_its_own(host: str, name: str) -> None:
    sent = Request("GET", b"/x", {b"host": host.encode(), b"cookie": f"{name}=abc".encode()}, HttpPeer("127.0.0.1", 1))
    assert (cookie_name(sent), cookie(sent)) == (name, "abc")


def test_a_request_without_the_cookie_has_none() -> None:
    assert cookie(Request("GET", b"/", {}, HttpPeer("127.0.0.1", 1))) == ""


def external(**changes: Any) -> Identity:
    known: dict[str, Any] = {"tags": frozenset({"monitoring"}), "scopes": ("@read:*/*",), "expires_ms": None}
    return Identity("ada", local=False, **{**known, **changes})


def test_a_session_of_a_user_that_is_not_stored_says_all_about_it(access: Access) -> None:
    clock = ManualClock(1_000_000)
    logins, other = Sessions(access.users, clock, (b"k" * 32,)), Sessions(access.users, clock, (b"k" * 32,))
    who = external(expires_ms=clock.now_ms() + 60_000)
    key, session = logins.begin(who)
    for each in (logins, other):
        found = each.find(asked(key))
        assert found is not None
        assert (found.identity, found.user, found.token) == (who, "ada", session.token)
    assert Sessions(access.users, clock, (b"x" * 32,)).find(asked(key)) is None
    clock.advance(59.999)
    assert logins.find(asked(logins.cookie_of(session))) is not None
    clock.advance(0.001)
    assert logins.find(asked(key)) is None


@pytest.mark.parametrize("changed", ["identity", "stored", "times", "bomb", "nonsense"])
def test_a_cookie_of_such_a_session_that_was_changed_is_not_taken(access: Access, changed: str) -> None:
    logins = Sessions(access.users, ManualClock(1_000_000))
    key, _ = logins.begin(external())
    mine, *rest = key.split(".")
    admin = zlib.compress(json.dumps(external(tags=frozenset({"administrator"})).to_list()).encode())
    made = {
        "identity": ["~" + urlsafe_b64encode(admin).decode(), *rest],
        "stored": [urlsafe_b64encode(b"alice").decode(), *rest],
        "times": [mine, str(int(rest[0]) + 1), *rest[1:]],
        "bomb": ["~" + urlsafe_b64encode(zlib.compress(bytes(1 << 24))).decode(), *rest],
        "nonsense": ["~x", *rest],
    }
    assert logins.find(asked(key)) is not None
    assert logins.find(asked(".".join(made[changed]))) is None


def test_scopes_that_do_not_fit_a_cookie_are_refused(access: Access) -> None:
    logins = Sessions(access.users, ManualClock(1_000_000))
    with pytest.raises(Refusal, match="too many scopes"):
        logins.begin(external(scopes=tuple(f"read:{secrets.token_urlsafe(60)}" for _ in range(80))))


def test_other_values_are_signed_for_one_purpose(access: Access) -> None:
    logins = Sessions(access.users, ManualClock(1_000_000))
    value = logins.sign("a", b"data")
    assert logins.signed("a", value) == b"data"
    for purpose, wrong in (("b", value), ("a", value[:-2] + "xx"), ("a", ""), ("a", "ZGF0YQ==."), ("a", "." + value)):
        assert logins.signed(purpose, wrong) is None
    assert logins.find(asked(value)) is None


def test_logins_and_logouts_outlast_a_restart(access: Access, clock: ManualClock, tmp_path: Path) -> None:
    path = str(tmp_path / "sessions")

    def started() -> Sessions:
        return Sessions(access.users, clock, (), SessionFile(path, clock.now_ms()))

    logins = started()
    kept, _ = logins.begin(identity_of(access.users.get("alice")))
    left, session = logins.begin(identity_of(access.users.get("alice")))
    logins.end(session)
    assert os.stat(path).st_mode & 0o777 == 0o600
    again = started()
    assert again.find(asked(kept)) is not None
    assert again.find(asked(left)) is None
    assert len(Path(path).read_text().splitlines()) == 2
    clock.advance(AGE_MS_MAX)
    started()
    assert len(Path(path).read_text().splitlines()) == 1


@pytest.mark.parametrize("content", ["", "zz", "00" * 32 + "\nmore", "00" * 31, "\ufffd"])
def test_a_damaged_file_of_sessions_ends_them_all(
    access: Access, clock: ManualClock, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "sessions"
    key, _ = Sessions(access.users, clock, (bytes(32),)).begin(identity_of(access.users.get("alice")))
    path.write_text(content, "latin-1" if content != "\ufffd" else "utf-8")
    assert Sessions(access.users, clock, (), SessionFile(str(path), clock.now_ms())).find(asked(key)) is None


def test_the_file_of_sessions_has_an_end(clock: ManualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "FILE_LINES_MAX", 3)
    file = SessionFile(str(tmp_path / "sessions"), clock.now_ms())
    for number in range(20):
        file.append("alice", str(number), clock.now_ms())
        assert len((tmp_path / "sessions").read_text().splitlines()) <= 7
    assert [row[1] for row in SessionFile(str(tmp_path / "sessions"), clock.now_ms()).ended] == ["17", "18", "19"]
