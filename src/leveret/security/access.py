"""Users, permissions and limits that last: every change is journaled as a definition of the core.

The verbs run under the lock of the core. Hashing a password takes a fifth of a second and does not belong there: they
take what hash_password gave. `generation` changes with every change, so that remembered decisions can be forgotten.
What is changed elsewhere, in a catalog that several nodes share, is taken in by `follow`.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol
from weakref import WeakSet

from leveret.core.broker import Broker
from leveret.core.definition_log import Kind
from leveret.core.errors import NotFound, PreconditionFailed
from leveret.core.topology import Vhost, VhostDetails
from leveret.security.keys import AccessKey, AccessKeys, ApiKey, ApiKeys
from leveret.security.logins import Logins
from leveret.security.passwords import CHARS_MIN, DEFAULT_COST, Cost, hash_password
from leveret.security.permissions import Permission, Permissions, TopicPermission
from leveret.security.users import User, Users, VhostLimits, tag_set

ADMINISTRATOR = "administrator"
EVERYTHING = ".*"
GUEST = ("guest", "guest")  # let in from this machine only


class Watcher(Protocol):
    """Ends what clients were allowed to begin and may not go on with."""

    def access_changed(self, user: str | None) -> None:
        """The rights of a user, None: of all users, may have shrunk. Called under the lock: look at them later."""


class Access:
    """Who may do what, kept in the catalog of a core."""

    def __init__(self, core: Broker, default_user: tuple[str, str] | None = GUEST, cost: Cost = DEFAULT_COST) -> None:
        """Read what the core has; where it has no user at all, make the default one (name, password), if any."""
        self._core = core
        self.users = Users(cost)
        self.logins = Logins(self.users)
        self.permissions = Permissions()
        self.access_keys = AccessKeys()
        self.api_keys = ApiKeys(core, self._shrunk)
        self.generation = 0
        self.password_chars_min = CHARS_MIN
        """Fewest characters of a password that is set."""
        self.watchers: WeakSet[Watcher] = WeakSet()
        self.limits: dict[str, VhostLimits] = {}
        for kind in FOLLOWED:
            for stored in core.catalog.of(kind):
                self.follow(kind, stored)
        if default_user is not None and not len(self.users):
            name, password = default_user
            self.add_default_user(name, hash_password(password, cost))

    def follow(self, kind: Kind, definition: Mapping[str, Any], removed: bool = False) -> None:
        """Know what the core has been given, or has lost, without a verb of this class."""
        if kind in FOLLOWED:
            taken, dropped = FOLLOWED[kind]
            with suppress(NotFound):  # it went with its user, or with its virtual host
                (dropped if removed else taken)(self, definition)
        if kind == Kind.PERMISSION or (removed and kind in OWNED):
            self._shrunk(definition.get("user"))
        elif removed and kind in (Kind.USER, Kind.VHOST):
            self._shrunk(definition["name"] if kind == Kind.USER else None)
        else:
            self.generation += 1

    def _shrunk(self, user: str | None) -> None:
        """The rights of a user, None: of all users, may have shrunk."""
        self.generation += 1
        for watcher in list(self.watchers):
            watcher.access_changed(user)

    def add_default_user(self, name: str, password_hash: str) -> bool:
        """Add the first user, who may do everything; False when there is one already."""
        if len(self.users):
            return False
        self.add_user(name, password_hash, [ADMINISTRATOR])
        self.set_permission(name, "/", EVERYTHING, EVERYTHING, EVERYTHING)
        return True

    # Users

    def add_user(self, name: str, password_hash: str, tags: Iterable[str] = ()) -> User:
        """A new user; an empty hash: the user logs in by other means than a password."""
        return self.import_user(User(name, password_hash, tag_set(tags)), replacing=False)

    def import_user(self, user: User, *, replacing: bool = True) -> User:
        if user.name in self.users:
            if not replacing:
                raise PreconditionFailed(f"the user '{user.name}' exists: change it, or delete it first")
            self._check_administrator_left(user.name, user.tags)
        return self._keep(user)

    def change_password(self, name: str, password_hash: str) -> User:
        return self._keep(replace(self.users.get(name), password_hash=password_hash))

    def set_tags(self, name: str, tags: Iterable[str], *, force: bool = False) -> User:
        user = replace(self.users.get(name), tags=tag_set(tags))
        if not force:
            self._check_administrator_left(name, user.tags)
        return self._keep(user)

    def set_user_limits(self, name: str, limits: Mapping[str, int]) -> User:
        """Change the limits that are named (max-connections, max-channels); -1 removes one."""
        stored = self.users.get(name).to_dict()
        return self._keep(User.from_dict({**stored, "limits": {**stored["limits"], **limits}}))

    def delete_user(self, name: str, *, force: bool = False) -> None:
        user = self.users.get(name)
        if not force:
            self._check_administrator_left(name, frozenset())
        for topic in [each for each in self.permissions.topics() if each.user == name]:
            self._core.undefine(Kind.TOPIC_PERMISSION, topic.to_dict())
        for permission in [each for each in self.permissions if each.user == name]:
            self._core.undefine(Kind.PERMISSION, permission.to_dict())
        self.permissions.drop_user(name)
        for key in self.access_keys.of(name):
            self.delete_key(key.id)
        self.api_keys.drop_user(name)
        self._core.undefine(Kind.USER, {"name": user.name})
        self.users.delete(name)
        self._shrunk(name)

    def _keep(self, user: User) -> User:
        self.users.put(user)
        self._core.define(Kind.USER, user.to_dict())
        self.generation += 1
        return user

    def _check_administrator_left(self, name: str, tags: frozenset[str]) -> None:
        """Refuse tags for a user with which there would be no administrator any more."""
        administrators = {each.name for each in self.users if ADMINISTRATOR in each.tags}
        if administrators == {name} and ADMINISTRATOR not in tags:
            raise PreconditionFailed(
                f"the user '{name}' is the last administrator: give another user the tag first, or force it"
            )

    # Access keys

    def add_key(self, user: str, id: str, secret: str) -> AccessKey:
        """A key that a user can sign requests with."""
        key = AccessKey(id, self.users.get(user).name, secret, self._core.now_ms)
        self.access_keys.put(key)
        self._core.define(Kind.ACCESS_KEY, key.to_dict())
        self.generation += 1
        return key

    def delete_key(self, id: str) -> None:
        """What is signed with a key is refused from now on."""
        key = self.access_keys.drop(id)
        self._core.undefine(Kind.ACCESS_KEY, {"name": key.id, "user": key.user})
        self._shrunk(key.user)

    # Permissions

    def set_permission(self, user: str, vhost: str, configure: str, write: str, read: str) -> Permission:
        permission = Permission(*self._owner(user, vhost), configure, write, read)
        self.permissions.put(permission)
        self._core.define(Kind.PERMISSION, permission.to_dict())
        self._shrunk(user)
        return permission

    def clear_permission(self, user: str, vhost: str) -> None:
        self._core.undefine(Kind.PERMISSION, self.permissions.drop(user, vhost).to_dict())
        self._shrunk(user)

    def set_topic_permission(self, user: str, vhost: str, exchange: str, write: str, read: str) -> TopicPermission:
        """Which keys of a topic exchange a user may use."""
        permission = TopicPermission(*self._owner(user, vhost), exchange, write, read)
        self.permissions.put_topic(permission)
        self._core.define(Kind.TOPIC_PERMISSION, permission.to_dict())
        self.generation += 1
        return permission

    def clear_topic_permission(self, user: str, vhost: str, exchange: str | None = None) -> None:
        """Let a user use every key again, of one exchange or of all."""
        dropped = self.permissions.drop_topic(user, vhost, exchange)
        if not dropped:
            raise NotFound(f"user '{user}' has no such topic permissions in vhost '{vhost}': there is nothing to clear")
        for permission in dropped:
            self._core.undefine(Kind.TOPIC_PERMISSION, permission.to_dict())
        self.generation += 1

    def _owner(self, user: str, vhost: str) -> tuple[str, str]:
        """Both, if they exist."""
        return self.users.get(user).name, self._core.topology.vhost(vhost).name

    # Virtual hosts

    def vhosts(self) -> list[str]:
        return sorted(self._core.topology.vhosts)

    def declare_vhost(self, name: str, details: VhostDetails | None = None) -> Vhost:
        virtual_host = self._core.declare_vhost(name, details)
        self.generation += 1
        return virtual_host

    def delete_vhost(self, name: str) -> None:
        """Delete a virtual host with everything in it; permissions and limits go with it."""
        self._core.delete_vhost(name)
        self.permissions.drop_vhost(name)
        self.limits.pop(name, None)
        self._shrunk(None)

    def vhost_limits(self, vhost: str) -> VhostLimits:
        return self.limits.get(vhost) or VhostLimits(vhost)

    def set_vhost_limits(self, vhost: str, limits: Mapping[str, int]) -> VhostLimits:
        """Change the limits that are named (max-connections, max-queues); -1 removes one."""
        known = self.vhost_limits(self._core.topology.vhost(vhost).name).values()
        changed = VhostLimits.from_dict({"vhost": vhost, "limits": {**known, **limits}})
        if changed.values():
            self.limits[vhost] = changed
            self._core.define(Kind.VHOST_LIMITS, changed.to_dict())
        else:
            self.limits.pop(vhost, None)
            self._core.undefine(Kind.VHOST_LIMITS, {"vhost": vhost})
        self.generation += 1
        return changed


def _take_key(access: Access, stored: Mapping[str, Any]) -> None:
    """A key never changes, and comes only once."""
    if access.access_keys.find(stored["name"]) is None:
        access.access_keys.put(AccessKey.from_dict(stored))


Taken = Callable[[Access, Mapping[str, Any]], object]
OWNED = frozenset((Kind.ACCESS_KEY, Kind.API_KEY))

FOLLOWED: dict[Kind, tuple[Taken, Taken]] = {
    Kind.USER: (
        lambda access, stored: access.users.put(User.from_dict(stored)),
        lambda access, stored: access.users.delete(stored["name"]),
    ),
    Kind.PERMISSION: (
        lambda access, stored: access.permissions.put(Permission.from_dict(stored)),
        lambda access, stored: access.permissions.drop(stored["user"], stored["vhost"]),
    ),
    Kind.TOPIC_PERMISSION: (
        lambda access, stored: access.permissions.put_topic(TopicPermission.from_dict(stored)),
        lambda access, stored: access.permissions.drop_topic(stored["user"], stored["vhost"], stored["exchange"]),
    ),
    Kind.VHOST_LIMITS: (
        lambda access, stored: access.limits.update({stored["vhost"]: VhostLimits.from_dict(stored)}),
        lambda access, stored: access.limits.pop(stored["vhost"], None),
    ),
    Kind.ACCESS_KEY: (_take_key, lambda access, stored: access.access_keys.drop(stored["name"])),
    Kind.API_KEY: (
        lambda access, stored: access.api_keys.put(ApiKey.from_dict(stored)),
        lambda access, stored: access.api_keys.drop(stored["name"]),
    ),
}
"""How a definition that comes from elsewhere is taken in, and how it is forgotten."""
