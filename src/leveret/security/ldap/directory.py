"""A directory as logins use it: which entry a name is, whether the password is right, and in which groups it is.

by pattern:   bind(pattern with the name, password)
by search:    bind(service) -> search(name) -> bind(entry, password)
then:         [bind(service)] -> groups: search below a base, an attribute of the entry, groups of groups

Groups are asked for as the service, if there is one; otherwise as the user, who may have to be allowed to read them.

A server that fails is not asked for RETRY_S; then one login tries it, while others go on without it. So a server that
hangs costs the threads of logins its timeout once in a while, and not each of them each time.
"""

import ssl
import time
from collections.abc import Callable, Iterator, Sequence, Sized
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from leveret.core.errors import InvalidArgument
from leveret.security.distinguished_names import Parts, escaped, parsed
from leveret.security.ldap import filters
from leveret.security.ldap.connection import HostNames, LdapConnection, LdapFailed, LdapServer, Unavailable
from leveret.security.ldap.filters import LdapFilter
from leveret.security.ldap.wire import Code, SearchScope

RETRY_S = 10.0
IDLE_S = 60.0  # servers close connections that are not used, some of them after a few minutes
IDLE_MAX = 4  # connections to one server: as many as there are threads for logins

T = TypeVar("T")
Tell = Callable[[str, str | None], object]
"""Is told the URL of a server and why it fails; None: it answers again."""
USERNAME, USER_DN = "username", "user_dn"
BY_NAME = "${username}"
GROUPS_MAX = 2_000  # of one user, and of one answer
NESTING_MAX = 8
ANY_ENTRY = filters.parse("(objectClass=*)", frozenset()).encoded({})


class _State:
    """What is known about one server."""

    def __init__(self) -> None:
        self.trouble: str | None = None
        self.retry_s = 0.0
        self.idle: list[tuple[float, LdapConnection]] = []


class LdapServers:
    """Asks one of several servers; used by many threads."""

    def __init__(
        self,
        servers: Sequence[LdapServer],
        context: ssl.SSLContext | None,
        timeout_s: float,
        tell: Tell = lambda *_: None,
    ) -> None:
        self._servers = {each: _State() for each in servers}
        self._context = context
        self._timeout_s = timeout_s
        self._tell = tell
        self._names = HostNames()
        self._mutex = Lock()

    def ask(self, question: Callable[[LdapConnection], T]) -> T:
        """The answer of the first server that gives one; raises Unavailable when none does, and what is refused."""
        for server, state in self._servers.items():
            if not self._may_ask(state):
                continue
            try:
                answer = self._ask(server, state, question)
            except Unavailable as error:
                self._failed(server, state, str(error))
                continue
            except Exception:
                self._works(server, state)
                raise
            self._works(server, state)
            return answer
        troubles = "; ".join(f"{server.url}: {state.trouble}" for server, state in self._servers.items())
        raise Unavailable(f"no LDAP server answers ({troubles}): see to it, logins are tried every {RETRY_S:g} s")

    def _may_ask(self, state: _State) -> bool:
        """Whether a server is not in trouble, or the next login may try it."""
        with self._mutex:
            now_s = time.monotonic()
            if state.trouble is None:
                return True
            if now_s < state.retry_s:
                return False
            state.retry_s = now_s + self._timeout_s + RETRY_S
            return True

    def _ask(self, server: LdapServer, state: _State, question: Callable[[LdapConnection], T]) -> T:
        """Ask on a connection that waits, or on a new one; the server may have closed those that wait."""
        waiting = self._taken(state)
        if waiting is not None:
            waiting.deadline_s = time.monotonic() + self._timeout_s / 2  # else none is left for a new one
            try:
                return self._asked(waiting, state, question)
            except Unavailable:
                self.close_idle(state)
        deadline_s = time.monotonic() + self._timeout_s
        return self._asked(LdapConnection(server, self._names, self._context, deadline_s), state, question)

    def _asked(self, connection: LdapConnection, state: _State, question: Callable[[LdapConnection], T]) -> T:
        """Ask, and keep the connection for the next login, which begins with a bind of its own."""
        is_good = True
        try:
            return question(connection)
        except Unavailable:
            is_good = False
            raise
        finally:
            with self._mutex:
                is_kept = is_good and len(state.idle) < IDLE_MAX
                if is_kept:
                    state.idle.append((time.monotonic() + IDLE_S, connection))
            if not is_kept:
                connection.close()

    def _taken(self, state: _State) -> LdapConnection | None:
        """The connection that was used last, if it is not too old."""
        with self._mutex:
            while state.idle:
                until_s, connection = state.idle.pop()
                if time.monotonic() < until_s:
                    return connection
                connection.close()
        return None

    def close_idle(self, state: _State) -> None:
        with self._mutex:
            idle, state.idle = state.idle, []
        for _, connection in idle:
            connection.close()

    def close(self) -> None:
        for state in self._servers.values():
            self.close_idle(state)

    def _failed(self, server: LdapServer, state: _State, reason: str) -> None:
        with self._mutex:
            is_news = state.trouble is None
            state.trouble = reason
            state.retry_s = time.monotonic() + RETRY_S
        self.close_idle(state)
        if is_news:
            self._tell(server.url, reason)

    def _works(self, server: LdapServer, state: _State) -> None:
        with self._mutex:
            is_news, state.trouble = state.trouble is not None, None
        if is_news:
            self._tell(server.url, None)


class WrongLogin(Exception):
    """The name or the password is wrong, or the directory does not let this user in."""


class Misconfigured(Exception):
    """The directory refuses what this server asks for: an operator has to see to it."""


@dataclass(frozen=True, slots=True)
class DirectoryUser:
    """A user that has logged in."""

    dn: str
    groups: frozenset[Parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How users and groups are found; see the options of the same names."""

    user_dn: str | None = None
    bind_dn: str | None = None
    bind_password: bytes = field(default=b"", repr=False)
    user_base: str | None = None
    user_filter: LdapFilter | None = None
    group_base: str | None = None
    group_filter: LdapFilter | None = None
    group_attribute: str | None = None
    nested: bool = False
    """Whether groups may be in groups, which the same filter finds."""

    def __post_init__(self) -> None:
        if (self.user_dn is None) == (self.user_base is None):
            raise InvalidArgument("give ldap_user_dn, or ldap_user_base with ldap_user_filter: one of both")
        if self.user_dn is not None:
            if self.user_dn.count(BY_NAME) != 1:
                raise InvalidArgument(f"ldap_user_dn has {BY_NAME} in it once: uid={BY_NAME},ou=people,dc=...")
            parsed(self.user_dn.replace(BY_NAME, "name"))
        if self.bind_dn is not None and not self.bind_password:
            raise InvalidArgument("ldap_bind_dn needs ldap_bind_password: without one a directory lets in anybody")
        if self.bind_dn is None and self.user_base is not None:
            raise InvalidArgument("a search for users needs ldap_bind_dn and ldap_bind_password")
        if self.group_base is None and self.group_attribute is None:
            raise InvalidArgument("groups need ldap_group_base with ldap_group_filter, or ldap_group_attribute")
        if self.nested and (self.group_base is None or self.group_filter is None or BY_NAME in self.group_filter.text):
            raise InvalidArgument("ldap_nested_groups needs ldap_group_base, and a filter without ${username}")
        for base in filter(None, (self.user_base, self.group_base, self.bind_dn)):
            parsed(base)


class LdapDirectory:
    """Logs users in by the servers of a directory."""

    def __init__(self, servers: LdapServers, rules: Rules) -> None:
        self._servers = servers
        self._rules = rules

    def log_in(self, name: str, password: bytes) -> DirectoryUser:
        """The user of that name, with its groups; raises WrongLogin, Misconfigured, Unavailable. May wait."""
        if not name or not password:
            raise WrongLogin("a name or a password is missing")
        return self._servers.ask(lambda connection: self._log_in(connection, name, password))

    def close(self) -> None:
        self._servers.close()

    def _log_in(self, connection: LdapConnection, name: str, password: bytes) -> DirectoryUser:
        dn = self._dn(connection, name)
        result = connection.bind(dn, password)
        if result.code != Code.SUCCESS:
            raise WrongLogin(f"the directory refuses {dn!r}: {result}")
        if self._rules.bind_dn is not None:
            self._serve(connection)
        try:
            return DirectoryUser(dn, frozenset(map(parsed, self._groups(connection, name, dn))))
        except LdapFailed as error:
            raise Misconfigured(f"groups of {dn!r} cannot be read: {error}") from None
        except InvalidArgument as error:
            raise Misconfigured(f"a group of {dn!r} has a name that cannot be read: {error}") from None

    def _serve(self, connection: LdapConnection) -> None:
        """Be the service."""
        rules = self._rules
        assert rules.bind_dn is not None, "there is one"
        result = connection.bind(rules.bind_dn, rules.bind_password)
        if result.code != Code.SUCCESS:
            raise Misconfigured(f"the directory refuses ldap_bind_dn: {result}")

    def _dn(self, connection: LdapConnection, name: str) -> str:
        rules = self._rules
        if rules.user_dn is not None:
            return rules.user_dn.replace(BY_NAME, escaped(name))
        assert rules.user_base is not None, "it is one of both"
        assert rules.user_filter is not None, "it goes with the base"
        self._serve(connection)
        sought = rules.user_filter.encoded({USERNAME: name})
        try:
            found = connection.search(rules.user_base, SearchScope.SUBTREE, sought, entries_max=1)
        except LdapFailed as error:
            raise Misconfigured(f"users cannot be searched for: {error}") from None
        if len(found) > 1:
            raise Misconfigured(f"several entries are user {name!r}: make ldap_user_filter match one")
        if not found or not found[0].dn:
            raise WrongLogin(f"the directory has no entry for user {name!r}")
        return found[0].dn

    # Groups

    def _groups(self, connection: LdapConnection, name: str, dn: str) -> set[str]:
        """The names of the groups of a user, with those that groups are in."""
        rules, values = self._rules, {USERNAME: name, USER_DN: dn}
        groups: set[str] = set()
        if rules.group_attribute is not None:
            groups.update(self._attribute(connection, dn, rules.group_attribute))
        if rules.group_base is not None and rules.group_filter is not None:
            groups.update(self._matches(connection, rules.group_base, rules.group_filter.encoded(values)))
        new = groups
        for _ in range(NESTING_MAX):
            if not new or not rules.nested:
                break
            new = {each for group in sorted(new) for each in self._outer(connection, group)} - groups
            groups = groups | new
            _check_count(groups)
        return groups

    def _outer(self, connection: LdapConnection, group: str) -> Iterator[str]:
        base, sought = self._rules.group_base, self._rules.group_filter
        assert base is not None, "groups of groups are below it"
        assert sought is not None, "it goes with the base"
        return self._matches(connection, base, sought.encoded({USER_DN: group}))

    def _matches(self, connection: LdapConnection, base: str, sought: bytes) -> Iterator[str]:
        found = connection.search(base, SearchScope.SUBTREE, sought, entries_max=GROUPS_MAX)
        _check_count(found)
        return (each.dn for each in found)

    def _attribute(self, connection: LdapConnection, dn: str, name: str) -> Iterator[str]:
        """The values of an attribute of the user's entry, such as memberOf."""
        found = connection.search(dn, SearchScope.BASE, ANY_ENTRY, (name,), entries_max=1)
        values = found[0].attributes.get(name.lower(), []) if len(found) == 1 else []
        _check_count(values)
        return (each.decode("utf-8", "replace") for each in values)


def _check_count(groups: Sized) -> None:
    if len(groups) > GROUPS_MAX:
        raise Misconfigured(f"a user has over {GROUPS_MAX} groups: narrow ldap_group_base or ldap_group_filter")
