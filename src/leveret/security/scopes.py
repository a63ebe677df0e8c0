"""Scopes of tokens and API keys: what they allow.

    write:orders.*              access:pattern of names; in every virtual host of a stored user, else in "/" only
    manage                      the token may use the tags of its user
    @write:%2F/orders*/eu.*     access:vhost/name[/routing key], as RabbitMQ has it after `<resource server>.`

An access is configure, write, read, or * for all of them. A * in a pattern stands for anything. In the third form the
parts are URL-encoded and {vhost} stands for the virtual host; without a pattern of routing keys it allows no key of a
topic exchange. The third form is for tokens only: the @ takes the place of the prefix, which differs between servers.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, get_args
from urllib.parse import quote, unquote

from leveret.core.errors import InvalidArgument
from leveret.core.patterns import parts_match
from leveret.security.permissions import Access

VERBS = frozenset(get_args(Access))
ANY = "*"
MANAGE = "manage"
QUALIFIED = "@"
DEFAULT_VHOST = "/"
SCOPES_MAX = 100  # of one token: each is tried for each request
SCOPE_CHARS_MAX = 300
SCOPES_BYTES_MAX = 7_000  # of one web token: nodes forward them in one frame of AMQP, which has 8 KiB at least
PARTS_MIN, PARTS_MAX = 2, 3  # vhost/name[/routing key]
VHOST_VARIABLE = "{vhost}"


class TokenScope(NamedTuple):
    """A scope taken apart; `vhost` of None is the first form."""

    access: str
    name: str
    vhost: str | None = None
    key: str | None = None

    def covers_vhost(self, vhost: str, everywhere: bool) -> bool:
        """Whether it allows something in a virtual host; `everywhere`: the first form is for all of them."""
        if self.vhost is None:
            return bool(self.access) and (everywhere or vhost == DEFAULT_VHOST)
        return matches(self.vhost, vhost, vhost)

    def covers(self, access: Access, name: str, vhost: str, everywhere: bool) -> bool:
        """Whether it allows an access to a queue or an exchange."""
        if self.access not in (access, ANY) or not self.covers_vhost(vhost, everywhere):
            return False
        return matches(self.name, name, None if self.vhost is None else vhost)

    def covers_key(self, access: Access, exchange: str, key: str, vhost: str, everywhere: bool) -> bool:
        """Whether it allows a routing key on a topic exchange."""
        if not self.covers(access, exchange, vhost, everywhere):
            return False
        return self.vhost is None or (self.key is not None and matches(self.key, key, vhost))


@lru_cache(maxsize=10_000)
def scope_of(text: str) -> TokenScope:
    """A scope that was checked by parse_scopes or made by qualified."""
    access, _, pattern = text.partition(":")
    if not access.startswith(QUALIFIED):
        return TokenScope(access if pattern else "", pattern)
    vhost, name, *keys = pattern.split("/")
    return TokenScope(access.removeprefix(QUALIFIED), name, vhost, *keys)


def parse_scopes(given: object) -> tuple[str, ...]:
    """Checked scopes of the first form, from a list or from words separated by spaces."""
    scopes = words(given)
    if scopes is None:
        raise InvalidArgument("scopes are a list of words like write:orders.*")
    for scope in scopes:
        if not is_plain(scope) or len(scope) > SCOPE_CHARS_MAX:
            raise InvalidArgument(f"the scope {scope!r} is not {MANAGE} or like write:orders.*, {SCOPE_CHARS_MAX} long")
    return limited(scopes)


def words(given: object) -> tuple[str, ...] | None:
    """A list of words, or the words of a text; None for anything else."""
    found = tuple(given.split()) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else None
    return found if found is not None and all(isinstance(each, str) for each in found) else None


def is_plain(scope: str) -> bool:
    """Whether it is a scope of the first form."""
    verb, colon, pattern = scope.partition(":")
    return scope == MANAGE or bool(verb in VERBS | {ANY} and colon and pattern)


def qualified(scope: str) -> str | None:
    """The third form of a scope of RabbitMQ without its prefix; None if it is none."""
    verb, _, pattern = scope.partition(":")
    if verb not in VERBS or not PARTS_MIN <= pattern.count("/") + 1 <= PARTS_MAX:
        return None
    return f"{QUALIFIED}{scope}"


def limited(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes, unless there are too many."""
    if len(scopes) > SCOPES_MAX:
        raise InvalidArgument(f"a token has at most {SCOPES_MAX} scopes, not {len(scopes)}: use patterns")
    return scopes


def matches(pattern: str, text: str, vhost: str | None) -> bool:
    """Whether a pattern matches a whole text; one of the third form with the virtual host that it is for."""
    if pattern == ANY:
        return True
    if vhost is not None and VHOST_VARIABLE in pattern:
        pattern = pattern.replace(VHOST_VARIABLE, quote(vhost, safe=""))
    return parts_match(_parts(pattern, vhost is not None), text)


@lru_cache(maxsize=10_000)
def _parts(pattern: str, is_encoded: bool) -> list[str]:
    """What stands between the stars of a pattern."""
    return [unquote(part) if is_encoded else part for part in pattern.split("*")]
