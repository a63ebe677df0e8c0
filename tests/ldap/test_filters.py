"""Filters: as slapd understands them, and what cannot be one."""

import time
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.core.errors import InvalidArgument
from leveret.security import der
from leveret.security.ldap import wire
from leveret.security.ldap.connection import HostNames, LdapConnection, LdapServer
from leveret.security.ldap.filters import DEPTH_MAX, parse
from leveret.security.ldap.wire import OCTETS, Code, SearchScope, tlv
from tests.ldap.slapd_process import GROUPS, PEOPLE, SERVICE, SERVICE_PASSWORD, SlapdProcess, user
from tests.waiting import PATIENCE_S

BOTH = frozenset(("username", "user_dn"))


@pytest.fixture
def connection(slapd: SlapdProcess) -> Iterator[LdapConnection]:
    made = LdapConnection(LdapServer.parse(slapd.url, False), HostNames(), None, time.monotonic() + PATIENCE_S)
    with closing(made):
        assert made.bind(SERVICE, SERVICE_PASSWORD.encode()).code == Code.SUCCESS
        yield made


def found(connection: LdapConnection, text: str, base: str = PEOPLE, **values: str) -> list[str]:
    entries = connection.search(base, SearchScope.SUBTREE, parse(text, BOTH).encoded(values), entries_max=100)
    return sorted(each.dn.partition(",ou=")[0].partition("=")[2] for each in entries if "=people" not in each.dn[:10])


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("(uid=ann)", ["ann"]),
        ("(uid=*nn)", ["ann"]),
        ("(uid=a*n)", ["ann"]),
        ("(uid=*o*)", ["bob", "jones\\2C jr."]),
        ("(uid=b*o*b)", ["bob"]),
        ("(uid=b*x*b)", []),
        ("(&(objectClass=inetOrgPerson)(|(uid=ann)(uid=bob)))", ["ann", "bob"]),
        ("(&(objectClass=inetOrgPerson)(!(uid=*)))", []),
        ("(&(uid=*)(!(uid=twin))(!(uid=eve)))", ["ann", "bob", "jones\\2C jr."]),
        ("(uid=jones\\2c jr.)", ["jones\\2C jr."]),
        ("(uid~=ann)", ["ann"]),
        ("(cn:caseExactMatch:=Ann)", []),
        ("(cn:caseExactMatch:=ann)", ["ann"]),
        ("(cn:=ANN)", ["ann"]),
        ("(cn:dn:=ann)", ["ann"]),
        ("(uid=${username})", ["bob"]),
        ("(uid=*${username})", ["bob"]),
        ("(cn:caseIgnoreMatch:=${username})", ["bob"]),
    ],
)
def test_a_filter_finds_what_it_says(connection: LdapConnection, text: str, names: list[str]) -> None:
    assert found(connection, text, username="bob") == names


def test_attributes_come_under_one_name(connection: LdapConnection) -> None:
    encoded = parse("(member=${user_dn})", BOTH).encoded({"user_dn": user("ann")})
    (entry,) = connection.search(GROUPS, SearchScope.SUBTREE, encoded, ("CN", "member"), entries_max=10)
    assert entry.attributes["cn"] == [b"operators"]
    assert user("ann").encode() in entry.attributes["member"]


def test_more_entries_than_are_wanted(connection: LdapConnection) -> None:
    assert len(connection.search(PEOPLE, SearchScope.SUBTREE, parse("(uid=*)", BOTH).encoded({}), entries_max=2)) == 3


@given(st.text(max_size=50))
def test_a_value_is_a_value_whatever_is_in_it(name: str) -> None:
    try:
        value = name.encode()
    except UnicodeEncodeError:
        return
    assert parse("(uid=${username})", BOTH).encoded({"username": name}) == tlv(
        0xA3, tlv(OCTETS, b"uid"), tlv(OCTETS, value)
    )
    combined = parse("(&(a=b)(uid=${username}))", BOTH).encoded({"username": name})
    ((tag, body),) = der.parts(combined)
    assert (tag, [each for each, _ in der.parts(body)]) == (0xA0, [0xA3, 0xA3])


@given(st.binary(max_size=200))
def test_bytes_of_a_server_are_an_answer_or_malformed(data: bytes) -> None:
    for decode in (wire.body_size, wire.message_of, wire.result_of, wire.entry_of):
        with suppress(wire.Malformed):
            decode(data)


@given(st.binary(max_size=60), st.integers(0, 59), st.integers(0, 255))
def test_an_answer_with_one_byte_changed(text: bytes, at: int, byte: int) -> None:
    value = tlv(wire.SEQUENCE, tlv(OCTETS, b"cn"), tlv(0x31, tlv(OCTETS, text)))
    body = bytearray(tlv(OCTETS, b"uid=ann") + tlv(wire.SEQUENCE, value))
    assert wire.entry_of(bytes(body)) == ("uid=ann", {"cn": [text]})
    body[at % len(body)] = byte
    with suppress(wire.Malformed):
        wire.entry_of(bytes(body))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "uid=ann",
        "(uid=ann",
        "(uid=ann))",
        "((uid=ann))",
        "(uid)",
        "(=ann)",
        "(&)",
        "(!(a=b)(c=d))",
        "(uid=a(b)",
        "(uid=a)(b=c)",
        "(uid=${name})",
        "(uid=${)",
        "(uid=a\\)",
        "(uid=a\\4)",
        "(uid=a\\zz)",
        "(uid>=a*)",
        "(uid:caseExactMatch=ann)",
        "(:=ann)",
        "(u d=ann)",
        "(" * 100,
        "(!" * (DEPTH_MAX + 1) + "(a=b)" + ")" * (DEPTH_MAX + 1),
        "(uid=" + "x" * 3_000 + ")",
    ],
)
def test_what_is_no_filter_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="the filter"):
        parse(text, BOTH)
