"""Users: who they are, and who is let in."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument, NotFound, TooMany
from leveret.core.names import NAME_BYTES_MAX
from leveret.security import logins, passwords, users
from leveret.security.logins import FREE_MAX, Failures, Verified
from leveret.security.passwords import NO_PASSWORD, Cost, hash_password
from leveret.security.peers import is_loopback, origin
from leveret.security.users import TAGS, User, UserLogin, Users, tag_set

CHEAP = Cost(2, 1, 1)
NOW_MS = 1_700_000_000_000
HERE = "127.0.0.1"
AFAR = "192.0.2.7"
SHA256 = "rabbit_password_hashing_sha256"
DOCUMENTED = "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"


@dataclass(frozen=True)
class CountedLogin(UserLogin):
    """What became of a login, and how long its refusal is held back."""

    delay_ms: int = 0


class People(Users):
    """Users whose logins are counted, as those of the chain of backends are."""

    def add(self, name: str, password: str | bytes | None, tags: Iterable[str] = ()) -> User:
        return self.put(User(name, NO_PASSWORD if password is None else hash_password(password, CHEAP), tag_set(tags)))

    def change_password(self, name: str, password: str | bytes | None) -> User:
        return self.add(name, password, self.get(name).tags)

    def authenticate(self, name: str, password: str | bytes, peer: str, now_ms: int) -> CountedLogin:
        login = self.check(name, password, peer, now_ms)
        if login.user is None:
            return CountedLogin(None, login.reason, delay_ms=self.failed(name, peer, now_ms))
        self.succeeded(name)
        return CountedLogin(login.user, rehash=login.rehash)


@pytest.fixture
def people() -> People:
    people = People(CHEAP)
    people.add("guest", "guest", ["administrator"])
    people.add("ada", "lovelace")
    return people


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The stored strings that were checked at full cost."""
    checked: list[str] = []

    def spy(stored: str, password: bytes) -> bool:
        checked.append(stored)
        return passwords.verify(stored, password)

    monkeypatch.setattr(users, "verify", spy)
    return checked


def test_the_right_password_lets_in(people: People) -> None:
    login = people.authenticate("ada", "lovelace", AFAR, NOW_MS)
    assert login.user == people.get("ada")
    assert (login.delay_ms, login.rehash) == (0, False)


@pytest.mark.parametrize(("name", "password"), [("ada", "byron"), ("ada", ""), ("eve", "lovelace"), ("", "")])
def test_wrong_names_and_passwords_are_refused(people: People, name: str, password: str) -> None:
    login = people.authenticate(name, password, AFAR, NOW_MS)
    assert login.user is None
    assert login.delay_ms == 0, "the first ones are answered at once"


def test_a_user_without_a_password_has_none_that_works(people: People) -> None:
    people.add("machine", None)
    assert people.authenticate("machine", "", HERE, NOW_MS).user is None
    assert people.authenticate("machine", "machine", HERE, NOW_MS).user is None


@pytest.mark.parametrize("peer", [HERE, "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_guest_comes_in_from_this_machine(people: People, peer: str) -> None:
    assert people.authenticate("guest", "guest", peer, NOW_MS).user is not None


@pytest.mark.parametrize("peer", [AFAR, "2001:db8::1", "::ffff:192.0.2.7", "localhost", ""])
def test_guest_does_not_come_in_from_elsewhere(people: People, peer: str) -> None:
    login = people.authenticate("guest", "guest", peer, NOW_MS)
    assert login.user is None
    assert "only connect from this machine" in login.reason


def test_who_is_kept_at_home_can_be_chosen() -> None:
    people = People(CHEAP, loopback_users=["ada"])
    people.add("guest", "guest")
    people.add("ada", "lovelace")
    assert people.authenticate("guest", "guest", AFAR, NOW_MS).user is not None
    assert people.authenticate("ada", "lovelace", AFAR, NOW_MS).user is None


def test_a_verified_password_is_not_hashed_again_for_a_minute(people: People, hashed: list[str]) -> None:
    ages_ms = (0, 1, logins.VERIFIED_MS - 1, logins.VERIFIED_MS)
    answers = [people.authenticate("ada", "lovelace", AFAR, NOW_MS + age_ms) for age_ms in ages_ms]
    assert all(login.user for login in answers)
    assert len(hashed) == 2


def test_a_clock_that_goes_back_ends_what_was_verified(people: People, hashed: list[str]) -> None:
    people.authenticate("ada", "lovelace", AFAR, NOW_MS)
    people.authenticate("ada", "lovelace", AFAR, NOW_MS - 1)
    assert len(hashed) == 2


def test_a_changed_password_ends_the_old_one_at_once(people: People) -> None:
    people.authenticate("ada", "lovelace", AFAR, NOW_MS)
    people.change_password("ada", "byron")
    assert people.authenticate("ada", "lovelace", AFAR, NOW_MS).user is None
    assert people.authenticate("ada", "byron", AFAR, NOW_MS).user is not None


def test_a_deleted_user_is_out_at_once(people: People) -> None:
    people.authenticate("ada", "lovelace", AFAR, NOW_MS)
    people.delete("ada")
    assert people.authenticate("ada", "lovelace", AFAR, NOW_MS).user is None


def test_a_user_who_does_not_exist_costs_as_much_as_one_who_does(people: People, hashed: list[str]) -> None:
    people.put(User.from_dict({"name": "imported", "password_hash": DOCUMENTED, "hashing_algorithm": SHA256}))
    for name in ("ada", "nobody", "imported"):
        hashed.clear()
        people.authenticate(name, "wrong", AFAR, NOW_MS)
        assert len([stored for stored in hashed if stored.startswith("scrypt$2$1$1$")]) == 1, name


def test_an_imported_user_gets_our_hash_when_the_edge_follows_the_hint(people: People) -> None:
    people.put(User.from_dict({"name": "rabbit", "password_hash": DOCUMENTED, "hashing_algorithm": SHA256}))
    assert people.authenticate("rabbit", "test12", AFAR, NOW_MS).rehash
    assert not people.authenticate("rabbit", "wrong", AFAR, NOW_MS).rehash
    people.change_password("rabbit", "test12")
    login = people.authenticate("rabbit", "test12", AFAR, NOW_MS)
    assert (login.user is not None, login.rehash) == (True, False)


def test_delays_grow_with_failures_and_are_bounded(people: People) -> None:
    delays_ms = [people.authenticate("ada", "wrong", AFAR, NOW_MS + tries).delay_ms for tries in range(8)]
    assert delays_ms == [0, 0, 0, 1_000, 2_000, 3_000, 3_000, 3_000]


def test_an_address_has_failed_often_until_it_is_forgotten(people: People) -> None:
    for _ in range(FREE_MAX):
        assert not people.failed_often(origin(AFAR), NOW_MS)
        people.count_failure(AFAR, NOW_MS)
    assert people.failed_often(origin(AFAR), NOW_MS)
    assert not people.failed_often(origin(HERE), NOW_MS)
    assert not people.failed_often(origin(AFAR), NOW_MS + logins.FORGOTTEN_MS)
    assert people.count_failure(AFAR, NOW_MS) == 1_000


def test_failures_count_by_address_whatever_the_name_and_by_name_whatever_the_address(people: People) -> None:
    for _ in range(FREE_MAX + 1):
        people.authenticate("eve", "wrong", AFAR, NOW_MS)
    assert people.authenticate("bob", "wrong", AFAR, NOW_MS).delay_ms == 2_000
    assert people.authenticate("eve", "wrong", "198.51.100.1", NOW_MS).delay_ms == 2_000
    assert people.authenticate("new", "wrong", "198.51.100.2", NOW_MS).delay_ms == 0


def test_the_right_password_is_never_delayed_by_the_failures_of_others(people: People) -> None:
    for _ in range(5):
        people.authenticate("ada", "wrong", AFAR, NOW_MS)
    assert people.authenticate("ada", "lovelace", AFAR, NOW_MS).delay_ms == 0


def test_a_success_clears_the_name_but_not_the_address(people: People) -> None:
    for _ in range(FREE_MAX + 3):
        people.authenticate("ada", "wrong", AFAR, NOW_MS)
    people.authenticate("ada", "lovelace", AFAR, NOW_MS)
    assert people.authenticate("ada", "wrong", "198.51.100.1", NOW_MS).delay_ms == 0
    assert people.authenticate("new", "wrong", AFAR, NOW_MS).delay_ms == 3_000


def test_failures_are_forgotten_after_a_while() -> None:
    counted = Failures()
    counted.add("ada", NOW_MS)
    assert counted.add("ada", NOW_MS + logins.FORGOTTEN_MS) == 1
    assert counted.add("ada", NOW_MS + logins.FORGOTTEN_MS + 1) == 2
    counted.forget("ada")
    assert counted.add("ada", NOW_MS + logins.FORGOTTEN_MS + 2) == 1


def test_a_clock_that_goes_back_forgets_no_failures() -> None:
    counted = Failures()
    counted.add("ada", NOW_MS)
    assert counted.add("ada", NOW_MS - 1) == 2


def test_counted_failures_are_bounded_and_the_oldest_goes_first() -> None:
    counted = Failures(entries_max=2)
    for name in ("a", "b", "a", "c"):
        counted.add(name, NOW_MS)
    assert len(counted) == 2
    assert counted.add("a", NOW_MS) == 3


def test_verified_passwords_are_bounded() -> None:
    known = Verified(entries_max=2)
    for password in (b"a", b"b", b"c"):
        known.remember("stored", password, NOW_MS)
    assert len(known) == 2
    assert [known.knows("stored", each, NOW_MS) for each in (b"a", b"b", b"c")] == [False, True, True]


def test_an_overlong_name_is_cut_before_it_is_counted_and_logged(people: People) -> None:
    login = people.authenticate("x" * 1_000_000, "wrong", AFAR, NOW_MS)
    assert len(login.reason) < NAME_BYTES_MAX + 100


@given(tags=st.sets(st.sampled_from(sorted(TAGS))), limits=st.tuples(*[st.none() | st.integers(0, 2**31 - 1)] * 2))
def test_a_user_survives_the_journal(tags: set[str], limits: tuple[int | None, int | None]) -> None:
    user = User("ada", passwords.unmatchable(CHEAP), frozenset(tags), *limits)
    assert User.from_dict(json.loads(json.dumps(user.to_dict()))) == user


def test_an_export_of_rabbitmq_is_understood() -> None:
    exported = {
        "name": "rabbit",
        "password_hash": DOCUMENTED,
        "hashing_algorithm": SHA256,
        "tags": "administrator, monitoring",
        "limits": {"max-connections": -1, "max-channels": 10},
    }
    user = User.from_dict(exported)
    assert user.tags == {"administrator", "monitoring"}
    assert (user.connections_max, user.channels_max) == (None, 10)


def test_neither_password_nor_hash_is_in_any_repr(people: People) -> None:
    login = people.authenticate("ada", "lovelace", AFAR, NOW_MS)
    refused = people.authenticate("ada", "sesame-open", AFAR, NOW_MS)
    shown = f"{login!r} {refused!r} {people!r} {people.get('ada')!r}"
    assert "'ada'" in shown
    assert not any(secret in shown for secret in ("lovelace", "sesame", "scrypt", people.get("ada").password_hash))


def test_users_are_listed_by_name(people: People) -> None:
    assert [user.name for user in people] == ["ada", "guest"]


def test_who_does_not_exist_cannot_be_changed(people: People) -> None:
    with pytest.raises(NotFound, match="no user 'eve'"):
        people.change_password("eve", "apple")
    with pytest.raises(NotFound, match="no user 'eve'"):
        people.delete("eve")


def test_users_are_bounded(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "USERS_MAX", 2)
    with pytest.raises(TooMany, match="delete some"):
        people.add("eve", "apple")
    people.change_password("ada", "byron")


@pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES_MAX + 1), "\ud800"])
def test_bad_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgument, match="user name"):
        User(name)


@pytest.mark.parametrize(
    "wrong",
    [
        {"tags": ["king"]},
        {"tags": [1]},
        {"tags": 1},
        {"limits": {"max-connections": -2}},
        {"limits": {"max-connections": True}},
        {"limits": {"max-channels": 2**31}},
        {"limits": {"max-wishes": 3}},
        {"limits": [1]},
        {"password_hash": "plain"},
        {"password_hash": DOCUMENTED},
        {"password_hash": DOCUMENTED, "hashing_algorithm": [SHA256]},
        {"name": None},
    ],
)
def test_bad_definitions_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        User.from_dict({"name": "ada", **wrong})


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
def test_an_ipv6_network_is_one_origin(one: str, other: str, same: bool) -> None:
    assert (origin(one) == origin(other)) == same


@given(st.text(max_size=40))
def test_any_text_has_a_short_origin(peer: str) -> None:
    assert len(origin(peer)) <= len("ffff:ffff:ffff:ffff::/64")


@given(st.ip_addresses(v=4) | st.ip_addresses(v=4, network="127.0.0.0/8"))
def test_an_address_wrapped_in_ipv6_is_the_same_address(address: IPv4Address) -> None:
    wrapped = f"::ffff:{address}"
    assert is_loopback(wrapped) == is_loopback(str(address)) == (address in IPv4Network("127.0.0.0/8"))
