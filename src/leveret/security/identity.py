"""The identity of a client: a user, its tags, and what the token that it came with allows.

Every protocol asks the same methods. A stored user ("local") has the permissions that are stored for it; the scopes of
an API key can only take away from them. Any other user has the scopes of its token, or the permissions that its groups
in a directory have, and nothing else.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from leveret.core.errors import AccessRefused
from leveret.core.names import described
from leveret.security.permissions import Access, Permission, Permissions, Resource
from leveret.security.scopes import MANAGE, scope_of

EVERY_VHOST = "*"


class BadToken(AccessRefused):
    """A token that proves nothing: forged, expired, or issued for another server."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A client that has proved who it is. Scopes of None take nothing away."""

    user: str
    tags: frozenset[str] = frozenset()
    scopes: tuple[str, ...] | None = field(default=None)
    local: bool = True
    """Whether the user is stored, with permissions that count as well; otherwise the scopes are all there is."""
    expires_ms: int | None = None
    """When the proof ends; None: never."""
    permissions: tuple[Permission, ...] = ()
    """Of a user that is not stored: what its groups allow, each in its virtual host or in EVERY_VHOST."""

    @property
    def principal(self) -> str:
        """What tells it from all others: a token or a directory may name a user as a stored user is called."""
        if self.local:
            return self.user
        return f"directory: {self.user}" if self.scopes is None else f"web token: {self.user}"

    def check(self, permissions: Permissions, vhost: str, resource: Resource, access: Access) -> None:
        if self.local:
            permissions.check(self.user, vhost, resource, access)
        if self.scopes is None and self.local:
            return
        name = resource.checked_name
        if any(each.allows(access, name) for each in self._in(vhost)):
            return
        if not any(scope_of(each).covers(access, name, vhost, self.local) for each in self.scopes or ()):
            what = described(resource.kind, name, vhost)
            lacking = f"its token has no scope such as {access}:{name}"
            reason = "none of its groups allows it" if self.scopes is None else lacking
            raise AccessRefused(f"{access} access to {what} refused for user '{self.user}': {reason}")

    def _in(self, vhost: str) -> list[Permission]:
        """The permissions that came with the login, in a virtual host."""
        return [each for each in self.permissions if each.vhost in (vhost, EVERY_VHOST)]

    def check_topic(
        self, permissions: Permissions, vhost: str, exchange: str, key: str, access: Literal["write", "read"]
    ) -> None:
        """Refuse a routing key that is not allowed on a topic exchange."""
        if self.local:
            permissions.check_topic(self.user, vhost, exchange, key, access)
        elif self._in(vhost):
            return  # groups have no permissions on keys, and without such every key is allowed
        elif not any(scope_of(each).covers_key(access, exchange, key, vhost, False) for each in self.scopes or ()):
            what = described("exchange", exchange, vhost)
            refused = f"{access} access to topic '{key}' in {what} refused for user '{self.user}'"
            raise AccessRefused(f"{refused}: its token has no scope for it")

    def may_enter(self, permissions: Permissions, vhost: str) -> bool:
        if self.local:
            return permissions.may_enter(self.user, vhost)
        if self._in(vhost):
            return True
        return any(scope_of(each).covers_vhost(vhost, False) for each in self.scopes or ())

    def may_configure_in(self, permissions: Permissions, vhost: str) -> bool:
        """Whether there may be a name in the virtual host that it may configure."""
        if self.local:
            return permissions.may_configure_in(self.user, vhost)
        if any(each.configures for each in self._in(vhost)):
            return True
        scopes = [scope_of(each) for each in self.scopes or ()]
        return any(each.access in ("configure", "*") and each.covers_vhost(vhost, False) for each in scopes)

    def has_expired(self, now_ms: int) -> bool:
        return self.expires_ms is not None and now_ms >= self.expires_ms

    def to_list(self) -> list[Any]:
        """The form in which nodes forward it and sessions keep it, fit for JSON."""
        rows = [[each.vhost, each.configure, each.write, each.read] for each in self.permissions]
        return [self.user, sorted(self.tags), self.scopes, self.local, self.expires_ms, *([rows] if rows else [])]

    @classmethod
    def from_list(cls, given: list[Any]) -> "Identity":
        user, tags, scopes, local, expires_ms, *more = given
        scopes = None if scopes is None else tuple(str(each) for each in scopes)
        rows = tuple(_permission(str(user), *map(str, row)) for row in (more[0] if more else ()))
        ends = None if expires_ms is None else int(expires_ms)
        return cls(str(user), frozenset(tags), scopes, bool(local), ends, rows)


@lru_cache(maxsize=10_000)  # requests that other nodes forward bring the same ones again and again
def _permission(user: str, vhost: str, configure: str, write: str, read: str) -> Permission:
    return Permission(user, vhost, configure, write, read)


def tags_within(tags: frozenset[str], scopes: tuple[str, ...]) -> frozenset[str]:
    """The tags of a user that a token with these scopes may use."""
    return tags if MANAGE in scopes else frozenset()
