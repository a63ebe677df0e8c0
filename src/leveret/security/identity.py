"""Who asks, and what the token that he came with allows.

A scope is `verb:pattern`: a verb of permissions (configure, write, read, or * for all of them) and a pattern of names
in which * stands for anything. The scope `manage` lets a token use the tags of its user; without it a token has none.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, get_args

from leveret.core.errors import AccessRefused, InvalidArgument
from leveret.security.permissions import Access, Permissions, Resource

VERBS = frozenset(get_args(Access))
ANY = "*"
MANAGE = "manage"
DEFAULT_VHOST = "/"
SCOPES_MAX = 100  # of one token: each is tried for each request
SCOPE_CHARS_MAX = 300


class BadToken(AccessRefused):
    """A token that proves nothing: forged, ended, or meant for somebody else."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. Scopes of None are those of somebody with a password: they take nothing away."""

    user: str
    tags: frozenset[str] = frozenset()
    scopes: tuple[str, ...] | None = field(default=None)
    local: bool = True
    """Whether the user is one of ours, with permissions that count as well; otherwise the scopes are all there is."""

    def check(self, permissions: Permissions, vhost: str, resource: Resource, access: Access) -> None:
        """Refuse an access that is not allowed."""
        if self.scopes is not None and not covers(self.scopes, access, resource.name):
            raise AccessRefused(
                f"{access} access to {resource.kind} '{resource.name}' in vhost '{vhost}' refused: "
                f"the token of '{self.user}' has no scope {access}:{resource.name}"
            )
        if self.local:
            permissions.check(self.user, vhost, resource, access)
        else:
            self.check_vhost(permissions, vhost)

    def check_topic(
        self, permissions: Permissions, vhost: str, exchange: str, key: str, access: Literal["write", "read"]
    ) -> None:
        """Refuse a key that is not allowed on a topic exchange."""
        if self.local:
            permissions.check_topic(self.user, vhost, exchange, key, access)

    def may_enter(self, permissions: Permissions, vhost: str) -> bool:
        """Whether it may open the virtual host."""
        return permissions.may_enter(self.user, vhost) if self.local else vhost == DEFAULT_VHOST

    def check_vhost(self, permissions: Permissions, vhost: str) -> None:
        """Refuse who may do nothing in a virtual host, whether it is there or not."""
        if self.local:
            permissions.check_vhost(self.user, vhost)
        elif vhost != DEFAULT_VHOST:
            raise AccessRefused(f"access to vhost '{vhost}' refused: web tokens are for '{DEFAULT_VHOST}' only")

    def to_list(self) -> list[Any]:
        """The form in which nodes forward it, fit for JSON."""
        return [self.user, sorted(self.tags), self.scopes, self.local]

    @classmethod
    def from_list(cls, given: list[Any]) -> "Identity":
        """The reverse of to_list."""
        user, tags, scopes, local = given
        return cls(str(user), frozenset(tags), None if scopes is None else tuple(scopes), bool(local))

    def check_tag(self, *tags: str) -> None:
        """Refuse who has none of these tags."""
        if self.tags.isdisjoint(tags):
            raise AccessRefused(f"'{self.user}' has none of the tags {', '.join(tags)}: ask an administrator")


def tags_within(tags: frozenset[str], scopes: tuple[str, ...]) -> frozenset[str]:
    """The tags of a user that a token with these scopes may use."""
    return tags if MANAGE in scopes else frozenset()


def parse_scopes(given: object) -> tuple[str, ...]:
    """Checked scopes, from a list or from words separated by spaces."""
    scopes = tuple(given.split()) if isinstance(given, str) else tuple(given) if isinstance(given, Iterable) else None
    if scopes is None or not all(isinstance(scope, str) for scope in scopes):
        raise InvalidArgument("scopes are a list of words like write:orders.*")
    if len(scopes) > SCOPES_MAX:
        raise InvalidArgument(f"a token has at most {SCOPES_MAX} scopes, not {len(scopes)}: use patterns")
    for scope in scopes:
        verb, colon, pattern = scope.partition(":")
        known = scope == MANAGE or (verb in VERBS | {ANY} and colon and pattern)
        if not known or len(scope) > SCOPE_CHARS_MAX:
            raise InvalidArgument(f"the scope {scope!r} is not {MANAGE} or like write:orders.*, {SCOPE_CHARS_MAX} long")
    return scopes


def covers(scopes: tuple[str, ...], access: Access, name: str) -> bool:
    """Whether one of the scopes allows an access."""
    for scope in scopes:
        verb, _, pattern = scope.partition(":")
        if verb in (access, ANY) and (pattern == ANY or _compiled(pattern).fullmatch(name)):
            return True
    return False


@lru_cache(maxsize=10_000)
def _compiled(pattern: str) -> re.Pattern[str]:
    """Repeated stars would make the search slow, and mean no more than one."""
    parts = [re.escape(part) for part in re.split(r"\*+", pattern)]
    # Each part at the first place where it is found, for good: there is nothing to gain by trying another one.
    middle = "".join(f"(?>.*?{part})" for part in parts[1:-1])
    return re.compile(parts[0] if len(parts) == 1 else f"{parts[0]}{middle}.*{parts[-1]}", re.DOTALL)
