"""Logins by a real slapd: passwords, names that try to be filters, groups, TLS, and servers that do not answer."""

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from leveret.core.errors import InvalidArgument
from leveret.security.distinguished_names import parsed
from leveret.security.ldap import directory as directory_module
from leveret.security.ldap import wire
from leveret.security.ldap.connection import LdapServer, Unavailable
from leveret.security.ldap.directory import LdapDirectory, LdapServers, Misconfigured, Rules, WrongLogin
from leveret.security.ldap.filters import parse
from leveret.security.ldap.wire import tlv
from leveret.security.tls import ClientTls
from tests.ldap.slapd_process import GROUPS, PEOPLE, SERVICE, SERVICE_PASSWORD, SUFFIX, SlapdProcess, group, user
from tests.server.certificates import Authority

BOTH = frozenset(("username", "user_dn"))
MEMBERS = parse("(&(objectClass=groupOfNames)(member=${user_dn}))", BOTH)
BY_PATTERN = Rules(user_dn="uid=${username}," + PEOPLE, group_base=GROUPS, group_filter=MEMBERS)
BY_SEARCH = Rules(
    bind_dn=SERVICE,
    bind_password=SERVICE_PASSWORD.encode(),
    user_base=SUFFIX,
    user_filter=parse("(&(objectClass=inetOrgPerson)(uid=${username}))", frozenset(("username",))),
    group_base=GROUPS,
    group_filter=MEMBERS,
)
WAYS = {"pattern": BY_PATTERN, "search": BY_SEARCH}


@contextmanager
def directory(url: str, rules: Rules, tls: ssl.SSLContext | None = None, **options: float) -> Iterator[LdapDirectory]:
    start_tls = tls is not None
    made = LdapDirectory(LdapServers([LdapServer.parse(url, start_tls)], tls, options.get("timeout_s", 30)), rules)
    with closing(made):
        yield made


def names(*groups: str) -> frozenset[object]:
    return frozenset(parsed(f"cn={each},{GROUPS}") for each in groups)


@pytest.mark.parametrize("way", WAYS)
def test_the_right_password_and_others(slapd: SlapdProcess, way: str) -> None:
    with directory(slapd.url, WAYS[way]) as asked:
        found = asked.log_in("ann", b"correct horse")
        assert (found.dn, found.groups) == (user("ann"), names("operators"))
        for wrong in (b"correct", b"correct horse ", b"Correct horse", b"\0", b"*", b"correct horse\0"):
            with pytest.raises(WrongLogin):
                asked.log_in("ann", wrong)
        assert asked.log_in("ann", b"correct horse") == found


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "name",
    [
        "*",
        "a*",
        "an\\6e",
        "*)(uid=*",
        "ann)(|(uid=*",
        "*))(|(objectClass=*",
        "ann\0",
        "ann,ou=people",
        f"ann,{PEOPLE}",
        "ann+cn=ann",
        "(uid=ann)",
        "#ann",
        "ann\\",
        '"ann"',
        "x" * 255,
        "ä" * 127,
        "${user_dn}",
        "${username}",
    ],
)
def test_names_that_would_be_more_than_a_name(slapd: SlapdProcess, way: str, name: str) -> None:
    with directory(slapd.url, WAYS[way]) as asked, pytest.raises(WrongLogin):
        asked.log_in(name, b"correct horse")


@pytest.mark.parametrize("way", WAYS)
def test_a_name_with_a_comma_is_that_name(slapd: SlapdProcess, way: str) -> None:
    with directory(slapd.url, WAYS[way]) as asked:
        assert asked.log_in("jones, jr.", b"with a comma").groups == names("operators")


@pytest.mark.parametrize("way", WAYS)
def test_without_a_password_nothing_is_asked(slapd: SlapdProcess, way: str) -> None:
    """This slapd answers a bind without a password with success."""
    with directory(slapd.url, WAYS[way]) as asked:
        for name, password in (("ann", b""), ("", b"correct horse"), ("", b"")):
            with pytest.raises(WrongLogin, match="missing"):
                asked.log_in(name, password)
    with closing(socket.create_connection(("127.0.0.1", slapd.port))) as plain:
        bind = tlv(wire.BIND, wire.number(3), tlv(wire.OCTETS, user("ann").encode()), tlv(0x80))
        plain.sendall(wire.message(1, bind))
        assert wire.result_of(wire.message_of(plain.recv(100)[2:]).body).code == 0  # that is so
    with pytest.raises(ValueError, match="proves nothing"):
        wire.bind_request(user("ann"), b"")


def test_several_entries_are_nobody(slapd: SlapdProcess) -> None:
    with directory(slapd.url, BY_SEARCH) as asked:
        for password in (b"first", b"second"):
            with pytest.raises(Misconfigured, match="several entries"):
                asked.log_in("twin", password)


@pytest.mark.parametrize("way", WAYS)
def test_groups_of_groups_count_if_they_are_to(slapd: SlapdProcess, way: str) -> None:
    rules = WAYS[way]
    given = {name: getattr(rules, name) for name in rules.__slots__}
    with directory(slapd.url, rules) as asked:
        assert asked.log_in("bob", b"battery staple").groups == names("orders", "a\\,b\\+c")
    with directory(slapd.url, Rules(**{**given, "nested": True})) as asked:
        assert asked.log_in("bob", b"battery staple").groups == names("orders", "staff", "company", "a\\2cb\\2Bc")


def test_groups_of_groups_in_a_circle_end(own_slapd: SlapdProcess) -> None:
    own_slapd.add(group("one", user("eve"), f"cn=two,{GROUPS}") + group("two", f"cn=one,{GROUPS}"))
    rules = Rules(user_dn="uid=${username}," + PEOPLE, group_base=GROUPS, group_filter=MEMBERS, nested=True)
    with directory(own_slapd.url, rules) as asked:
        assert asked.log_in("eve", b"evening").groups == names("one", "two")


def test_groups_by_an_attribute_of_the_user(slapd: SlapdProcess) -> None:
    with directory(slapd.url, Rules(user_dn="uid=${username}," + PEOPLE, group_attribute="memberOf")) as asked:
        assert asked.log_in("bob", b"battery staple").groups == names("orders", "a\\,b\\+c")
        selfmade = parsed(f"cn=operators,ou=selfmade,{SUFFIX}")
        assert asked.log_in("eve", b"evening").groups == frozenset({selfmade})


def test_what_the_service_may_not_do_is_told_apart(slapd: SlapdProcess) -> None:
    given = {name: getattr(BY_SEARCH, name) for name in BY_SEARCH.__slots__}
    for wrong, text in (
        ({"bind_password": b"wrong"}, "refuses ldap_bind_dn: result 49"),
        ({"user_base": f"ou=nowhere,{SUFFIX}"}, "users cannot be searched for: .* result 32"),
        ({"group_base": f"ou=nowhere,{SUFFIX}"}, "groups of .* cannot be read: .* result 32"),
    ):
        with directory(slapd.url, Rules(**{**given, **wrong})) as asked, pytest.raises(Misconfigured, match=text):
            asked.log_in("ann", b"correct horse")


# TLS


@pytest.mark.parametrize("way", WAYS)
def test_tls_from_the_beginning_and_by_start_tls(slapd: SlapdProcess, authority: Authority, way: str) -> None:
    context = ClientTls(str(authority.cert)).context
    for url in (slapd.tls_url, slapd.url):
        with directory(url, WAYS[way], context) as asked:
            assert asked.log_in("ann", b"correct horse").dn == user("ann")


def test_a_certificate_of_others_and_of_another_name(slapd: SlapdProcess, authority: Authority, tmp_path: Path) -> None:
    stranger = ClientTls(str(Authority(tmp_path, "Another Authority").cert)).context
    for url in (slapd.tls_url, slapd.url):
        with (
            directory(url, BY_PATTERN, stranger) as asked,
            pytest.raises(Unavailable, match="certificate verify failed"),
        ):
            asked.log_in("ann", b"correct horse")
    named = LdapServer("ldaps://x", "127.0.0.2", slapd.tls_port, True, False)
    context = ClientTls(str(authority.cert)).context
    with closing(LdapServers([named], context, 30)) as servers, pytest.raises(Unavailable):
        servers.ask(lambda connection: None)


def test_a_server_without_tls_gets_no_password(own_slapd: SlapdProcess, authority: Authority) -> None:
    context = ClientTls(str(authority.cert)).context
    with directory(own_slapd.url, BY_PATTERN, context) as asked, pytest.raises(Unavailable, match="StartTLS"):
        asked.log_in("ann", b"correct horse")


# Servers that do not answer


class Talks:
    """A server, and how many connections it was asked on."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.count = 0


@contextmanager
def listening(answer: bytes, then: bytes = b"") -> Iterator[Talks]:
    """A server that says something to whatever comes, and then something else again and again."""
    server = socket.create_server(("127.0.0.1", 0))
    seen = Talks(server.getsockname()[1])
    ended = threading.Event()

    def talk(client: socket.socket) -> None:
        with suppress(OSError), client:
            client.recv(1_000)
            client.sendall(answer)
            while not ended.wait(0.05):
                client.sendall(then)

    def accept() -> None:
        with suppress(OSError):
            while True:
                client, _ = server.accept()
                seen.count += 1
                talks.append(threading.Thread(target=talk, args=(client,)))
                talks[-1].start()

    talks = [threading.Thread(target=accept)]
    talks[0].start()
    try:
        yield seen
    finally:
        ended.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        for thread in talks:
            thread.join()


@pytest.mark.parametrize("scheme", ["ldap", "ldaps"])
@pytest.mark.parametrize(
    ("answer", "then"),
    [
        (b"", b""),
        (b"\x30\x84\0\0\x10\0", b"\0"),
        (b"\x30", b""),
        (b"\x30\x84\xff\xff\xff\xff", b"\0"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", b""),
        (b"\x30\x0c\x02\x01\x01\x61\x07\x0a\x01\0\x04\0\x04\0"[:-1] + b"\x05", b""),
        (b"\x30\x0c\x02\x01\x09\x61\x07\x0a\x01\0\x04\0\x04\0", b""),
        (b"\x30\x0c\x02\x01\x01\x65\x07\x0a\x01\0\x04\0\x04\0", b""),
        (b"\x30\x0c\x02\x01\0\x78\x07\x0a\x01\x34\x04\0\x04\0", b""),
    ],
    ids=["silent", "drip", "one byte", "too large", "http", "broken", "another id", "another kind", "farewell"],
)
def test_a_server_that_is_none_costs_its_time_and_no_more(scheme: str, answer: bytes, then: bytes) -> None:
    tls = ClientTls(None).context if scheme == "ldaps" else None
    with listening(answer, then) as talks:
        url = f"{scheme}://127.0.0.1:{talks.port}"
        with directory(url, BY_PATTERN, tls, timeout_s=1) as asked, pytest.raises(Unavailable):
            asked.log_in("ann", b"correct horse")


def test_a_server_that_hangs_is_not_asked_by_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A login that finds it in trouble is refused at once, and one of them tries it now and then."""
    monkeypatch.setattr(directory_module, "RETRY_S", 1_000.0)
    told: list[tuple[str, str | None]] = []
    with listening(b"") as talks:
        server = LdapServer.parse(f"ldap://127.0.0.1:{talks.port}", False)
        asked = LdapDirectory(LdapServers([server], None, 1, lambda url, why: told.append((url, why))), BY_PATTERN)
        with pytest.raises(Unavailable, match="timed out"):
            asked.log_in("ann", b"correct horse")
        for _ in range(100):
            with pytest.raises(Unavailable, match="no LDAP server answers"):
                asked.log_in("ann", b"correct horse")
        assert talks.count == 1
    assert told == [(server.url, "timed out")]


def test_the_next_server_is_asked_and_the_first_one_again_when_it_is_back(
    slapd: SlapdProcess, own_slapd: SlapdProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory_module, "RETRY_S", 0.0)
    told: list[tuple[str, bool]] = []
    both = [LdapServer.parse(each.url, False) for each in (own_slapd, slapd)]
    servers = LdapServers(both, None, 30, lambda url, why: told.append((url, why is None)))
    with closing(LdapDirectory(servers, BY_PATTERN)) as asked:
        assert asked.log_in("ann", b"correct horse").dn == user("ann")
        own_slapd.kill()
        assert asked.log_in("ann", b"correct horse").dn == user("ann")
        assert told == [(own_slapd.url, False)]
        own_slapd.start()
        assert asked.log_in("ann", b"correct horse").dn == user("ann")
        assert told == [(own_slapd.url, False), (own_slapd.url, True)]


def test_a_connection_that_the_server_has_closed_is_made_anew(own_slapd: SlapdProcess) -> None:
    with directory(own_slapd.url, BY_SEARCH) as asked:
        first = asked.log_in("ann", b"correct horse")
        own_slapd.kill()
        own_slapd.start()
        assert asked.log_in("ann", b"correct horse") == first


def test_a_name_that_has_no_address() -> None:
    unknown = directory("ldap://nowhere.invalid", BY_PATTERN, timeout_s=30)
    with unknown as asked, pytest.raises(Unavailable, match="its name has no address"):
        asked.log_in("ann", b"correct horse")


# Rules


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "one of both"),
        ({"user_dn": "uid=${username}", "user_base": "dc=org"}, "one of both"),
        ({"user_dn": "uid=ann,dc=org"}, "has \\${username} in it once"),
        ({"user_dn": "${username}@example.org"}, "is no distinguished name"),
        ({"user_dn": "uid=${username}", "bind_dn": "cn=x"}, "needs ldap_bind_password"),
        ({"user_base": "dc=org"}, "needs ldap_bind_dn"),
        ({"user_dn": "uid=${username}"}, "groups need"),
        ({"user_dn": "uid=${username}", "group_base": "groups"}, "is no distinguished name"),
        ({"user_dn": "uid=${username}", "group_attribute": "memberOf", "nested": True}, "needs ldap_group_base"),
    ],
)
def test_rules_that_lead_nowhere_are_refused(given: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        Rules(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url", ["", "ldap://", "http://x", "ldap://x/dc=org", "ldap://x:port", "ldap://u@x", "ldap://[::1"]
)
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidArgument, match="an LDAP server is like"):
        LdapServer.parse(url, True)
