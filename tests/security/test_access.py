"""Users, permissions and limits that last: through restarts, checkpoints and compaction."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leveret.core.errors import AccessRefused, InvalidArgument, NotFound, PreconditionFailed, VhostNotFound
from leveret.core.topology import VhostDetails
from leveret.security.access import GUEST, Access
from leveret.security.passwords import Cost, hash_password
from leveret.security.users import User, VhostLimits
from tests.core.world import World

CHEAP = Cost(2, 1, 1)
HERE = "127.0.0.1"
HASH = hash_password("lovelace", CHEAP)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[World]:
    """A world that can be restarted."""
    world = World(tmp_path)
    yield world
    world.close()


def opened(world: World, default_user: tuple[str, str] | None = GUEST) -> Access:
    return Access(world.broker, default_user, CHEAP)


@pytest.fixture
def access() -> Access:
    return opened(World())


def everything(access: Access) -> tuple[object, ...]:
    """All that there is, to compare."""
    limits = [access.vhost_limits(vhost) for vhost in ("/", "team")]
    return [*access.users], [*access.permissions], [*access.permissions.topics()], limits


def lets_in(access: Access, name: str, password: str) -> bool:
    return access.users.check(name, password, HERE, 0).user is not None


def replayed(disk: World) -> None:
    disk.restart()


def from_checkpoint(disk: World) -> None:
    disk.commit()
    disk.disk().checkpoint()
    disk.crash()


def compacted(disk: World) -> None:
    disk.send(disk.queue(), "x" * 2000)
    disk.compact()
    assert disk.disk().meta.oldest > 1
    disk.restart()


RETURNS = pytest.mark.parametrize("come_back", [replayed, from_checkpoint, compacted])


@RETURNS
def test_everything_survives(disk: World, come_back: Callable[[World], None]) -> None:
    access = opened(disk)
    access.declare_vhost("team", VhostDetails("ours", ("a", "b"), "quorum"))
    access.add_user("ada", HASH, ["monitoring"])
    access.set_user_limits("ada", {"max-connections": 3, "max-channels": 4})
    access.set_permission("ada", "team", "^ada-", ".*", "")
    access.set_permission("ada", "/", "", "", ".*")
    access.set_topic_permission("ada", "team", "amq.topic", "^{username}", ".*")
    access.set_vhost_limits("team", {"max-queues": 5, "max-connections": 6})
    before = everything(access)
    come_back(disk)
    again = opened(disk)
    assert everything(again) == before
    assert lets_in(again, "ada", "lovelace")
    assert disk.broker.topology.vhost("team").details == VhostDetails("ours", ("a", "b"), "quorum")


@RETURNS
def test_what_was_removed_stays_away(disk: World, come_back: Callable[[World], None]) -> None:
    access = opened(disk)
    access.declare_vhost("team")
    for name in ("ada", "bob"):
        access.add_user(name, HASH)
        access.set_permission(name, "team", "", "", "")
        access.set_topic_permission(name, "/", "amq.topic", "", "")
    access.set_vhost_limits("/", {"max-queues": 5})
    access.set_vhost_limits("/", {"max-queues": -1})
    access.delete_user("ada")
    access.clear_permission("bob", "team")
    access.clear_topic_permission("bob", "/")
    come_back(disk)
    again = opened(disk)
    assert [user.name for user in again.users] == ["bob", "guest"]
    assert [permission.user for permission in again.permissions] == ["guest"]
    assert [*again.permissions.topics()] == []
    assert again.vhost_limits("/") == VhostLimits("/")


@RETURNS
def test_permissions_and_limits_go_with_their_vhost(disk: World, come_back: Callable[[World], None]) -> None:
    access = opened(disk)
    access.declare_vhost("team")
    access.set_permission("guest", "team", ".*", ".*", ".*")
    access.set_topic_permission("guest", "team", "amq.topic", ".*", ".*")
    access.set_vhost_limits("team", {"max-connections": 1})
    access.delete_vhost("team")
    assert not access.permissions.may_enter("guest", "team")
    come_back(disk)
    again = opened(disk)
    again.declare_vhost("team")
    assert [permission.vhost for permission in again.permissions] == ["/"]
    assert [*again.permissions.topics()] == []
    assert again.vhost_limits("team").connections_max is None


def test_what_was_not_committed_is_gone_after_a_crash(disk: World) -> None:
    opened(disk)
    disk.commit()
    opened(disk).add_user("ada", HASH)
    disk.crash()
    assert [user.name for user in opened(disk).users] == ["guest"]


def test_a_broker_without_users_gets_guest_who_may_do_everything(access: Access) -> None:
    (guest,) = access.users
    (permission,) = access.permissions
    assert lets_in(access, "guest", "guest")
    assert guest.tags == {"administrator"}
    assert (permission.vhost, permission.configure, permission.write, permission.read) == ("/", ".*", ".*", ".*")


def test_the_default_user_can_be_another_or_none() -> None:
    assert [user.name for user in opened(World(), ("root", "secret")).users] == ["root"]
    assert len(opened(World(), None).users) == 0


def test_guest_is_not_made_where_there_is_somebody(disk: World) -> None:
    opened(disk, None).add_user("ada", HASH)
    disk.restart()
    assert [user.name for user in opened(disk).users] == ["ada"]


def test_the_last_administrator_is_not_lost_by_accident(access: Access) -> None:
    access.add_user("ada", HASH)
    for attempt in (
        lambda: access.delete_user("guest"),
        lambda: access.set_tags("guest", ["monitoring"]),
        lambda: access.import_user(User("guest", HASH)),
    ):
        with pytest.raises(PreconditionFailed, match="last administrator"):
            attempt()
    access.set_tags("ada", ["administrator"])
    access.delete_user("guest")
    access.set_tags("ada", [], force=True)
    access.delete_user("ada", force=True)
    assert len(access.users) == 0


def test_every_change_changes_the_generation(access: Access) -> None:
    changes: list[Callable[[], object]] = [
        lambda: access.declare_vhost("team"),
        lambda: access.add_user("ada", HASH),
        lambda: access.change_password("ada", hash_password("byron", CHEAP)),
        lambda: access.set_tags("ada", ["monitoring"]),
        lambda: access.set_user_limits("ada", {"max-channels": 1}),
        lambda: access.set_permission("ada", "team", "", "", ""),
        lambda: access.set_topic_permission("ada", "team", "x", "", ""),
        lambda: access.set_vhost_limits("team", {"max-queues": 1}),
        lambda: access.clear_topic_permission("ada", "team", "x"),
        lambda: access.clear_permission("ada", "team"),
        lambda: access.delete_user("ada"),
        lambda: access.delete_vhost("team"),
    ]
    for change in changes:
        before = access.generation
        change()
        assert access.generation > before
    assert [*access.users] == [access.users.get("guest")]


def test_a_new_password_takes_the_place_of_the_old_one(access: Access) -> None:
    access.add_user("ada", HASH)
    access.change_password("ada", hash_password("byron", CHEAP))
    assert lets_in(access, "ada", "byron")
    assert not lets_in(access, "ada", "lovelace")


def test_limits_are_changed_one_by_one(access: Access) -> None:
    access.set_user_limits("guest", {"max-connections": 1})
    access.set_user_limits("guest", {"max-channels": 2})
    access.set_user_limits("guest", {"max-connections": -1})
    guest = access.users.get("guest")
    assert (guest.connections_max, guest.channels_max) == (None, 2)
    access.set_vhost_limits("/", {"max-connections": 0})
    access.set_vhost_limits("/", {"max-queues": 2})
    assert access.vhost_limits("/") == VhostLimits("/", 0, 2)


def test_what_does_not_exist_is_refused(access: Access) -> None:
    access.add_user("ada", HASH)
    with pytest.raises(PreconditionFailed, match="exists"):
        access.add_user("ada", HASH)
    with pytest.raises(NotFound):
        access.set_permission("eve", "/", "", "", "")
    with pytest.raises(VhostNotFound):
        access.set_topic_permission("ada", "nowhere", "x", "", "")
    with pytest.raises(VhostNotFound):
        access.set_vhost_limits("nowhere", {"max-queues": 1})
    with pytest.raises(NotFound, match="nothing to clear"):
        access.clear_topic_permission("ada", "/")
    with pytest.raises(NotFound, match="nothing to clear"):
        access.clear_permission("ada", "/")


@pytest.mark.parametrize("limits", [{"max-quees": 1}, {"max-queues": -2}, {"max-queues": "1"}, {"max-queues": 2**31}])
def test_bad_limits_are_refused_and_change_nothing(access: Access, limits: dict[str, int]) -> None:
    with pytest.raises(InvalidArgument):
        access.set_vhost_limits("/", limits)
    assert access.vhost_limits("/") == VhostLimits("/")


def test_the_first_vhost_cannot_be_deleted(access: Access) -> None:
    with pytest.raises(AccessRefused, match="always there"):
        access.delete_vhost("/")
    assert access.permissions.may_enter("guest", "/")
