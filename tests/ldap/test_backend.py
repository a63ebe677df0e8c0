"""The backend for logins: what reaches the directory, what is remembered, and under which name a user is known."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from leveret.core.errors import InvalidArgument
from leveret.security.authentication import Credentials
from leveret.security.distinguished_names import parsed
from leveret.security.ldap.backend import Ldap
from leveret.security.ldap.connection import LdapServer, Unavailable
from leveret.security.ldap.directory import DirectoryUser, LdapDirectory, LdapServers, Rules, WrongLogin
from leveret.security.ldap.filters import parse
from tests.ldap.slapd_process import GROUPS, PEOPLE, SlapdProcess

PEER = "192.0.2.7"
OPERATORS = frozenset({parsed(f"cn=operators,{GROUPS}")})


class Asked(LdapDirectory):
    """A directory that notes what it is asked."""

    def __init__(self) -> None:
        rules = Rules(user_dn="uid=${username}", group_base=GROUPS, group_filter=parse("(a=b)", frozenset()))
        super().__init__(LdapServers([], None, 1), rules)
        self.names: list[str] = []
        self.trouble: Exception | None = None

    def log_in(self, name: str, password: bytes) -> DirectoryUser:
        self.names.append(name)
        if self.trouble is not None:
            raise self.trouble
        if password != b"right":
            raise WrongLogin("no")
        return DirectoryUser(f"uid={name}", OPERATORS)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def ldap(asked: Asked, mapping: Path) -> Ldap:
    return Ldap(asked, str(mapping), GROUPS, cache_s=60)


def given(name: str | None, password: bytes = b"right") -> Credentials:
    return Credentials(name, password)


@pytest.mark.parametrize(
    "credentials",
    [
        given(None),
        given("ann", b""),
        given("ann", b"x" * 1_025),
        given(""),
        given("  "),
        given("x" * 256),
        given("\ufdfa" * 80),
        given("an\0n"),
        given("an\nn"),
        given("an\u200bn"),
        given("an\u00adn"),
        given("an\ud800n"),
        given("an\ue000n"),
    ],
)
def test_what_never_reaches_a_directory(ldap: Ldap, asked: Asked, credentials: Credentials) -> None:
    login = ldap.authenticate(credentials, PEER, 0)
    assert login.identity is None
    assert login.reason.startswith("LDAP: ")
    assert asked.names == []


@pytest.mark.parametrize("name", ["ann", "ANN", " Ann ", "\uff41\uff4e\uff4e"])
def test_a_user_has_one_name(ldap: Ldap, asked: Asked, name: str) -> None:
    login = ldap.authenticate(given(name), PEER, 0)
    assert login.identity is not None
    assert (login.identity.user, login.identity.local, asked.names) == ("ann", False, ["ann"])


def test_a_right_password_is_remembered_and_a_wrong_one_is_not(ldap: Ldap, asked: Asked) -> None:
    assert ldap.recall(given("ann"), PEER, 0) is None
    assert ldap.authenticate(given("ann", b"wrong"), PEER, 0).identity is None
    assert ldap.recall(given("ann", b"wrong"), PEER, 1) is None
    identity = ldap.authenticate(given("ann"), PEER, 1_000).identity
    assert identity is not None
    assert ldap.recall(given("ann"), PEER, 1_000) == identity
    assert ldap.recall(given("ann"), PEER, 60_999) == identity
    assert ldap.recall(given("ann"), PEER, 61_000) is None
    assert ldap.recall(given("ann"), PEER, 999) is None  # a clock that went back
    for other in (given("bob"), given("ann", b"right "), given("ann", b"wrong"), given(None), given("annr", b"ight")):
        assert ldap.recall(other, PEER, 1_000) is None
    asked.trouble = Unavailable("no LDAP server answers")
    assert ldap.recall(given("ann"), PEER, 2_000) == identity
    refused = ldap.authenticate(given("ann"), PEER, 2_000)
    assert (refused.identity, refused.reason) == (None, "LDAP: no LDAP server answers")


def test_nothing_is_remembered_if_it_should_not_be(asked: Asked, mapping: Path) -> None:
    ldap = Ldap(asked, str(mapping), GROUPS, cache_s=0)
    assert ldap.authenticate(given("ann"), PEER, 0).identity is not None
    assert ldap.recall(given("ann"), PEER, 0) is None


def test_another_mapping_counts_at_once(ldap: Ldap, mapping: Path) -> None:
    assert ldap.authenticate(given("ann"), PEER, 0).identity is not None
    mapping.write_text('[[group]]\nname = "others"\n')
    refused = ldap.authenticate(given("ann"), PEER, 1)
    assert "is in no group of ldap_mapping" in refused.reason
    assert ldap.recall(given("ann"), PEER, 1) is None
    mapping.write_text("[[group]")
    assert "cannot be used" in ldap.authenticate(given("ann"), PEER, 2).reason
    mapping.unlink()
    assert "cannot read the mapping" in ldap.authenticate(given("ann"), PEER, 3).reason


def test_a_mapping_that_cannot_be_used_at_start(asked: Asked, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot read the mapping"):
        Ldap(asked, str(tmp_path / "nowhere.toml"), GROUPS, cache_s=60)


@pytest.fixture
def real(slapd: SlapdProcess, mapping: Path) -> Iterator[Ldap]:
    servers = LdapServers([LdapServer.parse(slapd.url, False)], None, 30)
    members = parse("(member=${user_dn})", frozenset(("user_dn",)))
    rules = Rules(user_dn="uid=${username}," + PEOPLE, group_base=GROUPS, group_filter=members)
    made = Ldap(LdapDirectory(servers, rules), str(mapping), GROUPS, cache_s=60)
    with closing(made):
        yield made


def test_groups_of_a_real_directory(real: Ldap) -> None:
    operator = real.authenticate(given("Ann", b"correct horse"), PEER, 0).identity
    assert operator is not None
    assert (operator.user, operator.tags) == ("ann", frozenset({"administrator"}))
    worker = real.authenticate(given("bob", b"battery staple"), PEER, 0).identity
    assert worker is not None
    assert [(row.vhost, row.configure, row.read) for row in worker.permissions] == [
        ("/", "^bob-", "^bob-"),
        ("/", "", "^shared$"),
    ]
    refused = real.authenticate(given("eve", b"evening"), PEER, 0)
    assert refused.reason == "LDAP: user 'eve' is in no group of ldap_mapping, of 0 groups that it has"
    assert f"the directory refuses 'uid=ann,{PEOPLE}': result 49" in real.authenticate(given("ann"), PEER, 0).reason
