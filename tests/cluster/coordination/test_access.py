"""Users and what they may do, on a copy of the catalog that is changed elsewhere."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from leveret.cluster.catalog.changes import DefinitionChange
from leveret.cluster.catalog.replica import Replica
from leveret.core.broker import Broker
from leveret.security.access import Access
from leveret.security.passwords import hash_password
from tests.protocols.amqp.client import CHEAP


def follow(access: Access, change: DefinitionChange) -> None:
    """What a node does with each change."""
    access.follow(change.kind, change.definition, change.removed)


class Copies:
    """Two copies of a catalog: verbs are run on the first, and made on the second."""

    def __init__(self) -> None:
        self.first, self.second = Replica(1), Replica(1)
        self.here = Access(self.first.broker, None, CHEAP)
        self.there = Access(self.second.broker, None, CHEAP)
        self.first.followers.append(partial(follow, self.here))
        self.second.followers.append(partial(follow, self.there))

    def change(self, verb: Callable[[Broker], Any], taken_back: bool = False) -> None:
        _, steps = self.first.run(verb)
        if taken_back:
            self.first.undo(steps)
        else:
            self.second.make([step.change for step in steps])


def everything(access: Access) -> dict[str, Any]:
    """What one can know about who may do what."""
    return {
        "users": {user.name: user.to_dict() for user in access.users},
        "permissions": {(each.user, each.vhost): each.to_dict() for each in access.permissions},
        "topics": {(each.user, each.vhost, each.exchange): each.to_dict() for each in access.permissions.topics()},
        "keys": {key.id: key for key in access.access_keys},
        "tokens": {key.number: key for key in access.api_keys},
        "limits": dict(access.limits),
    }


def steps_of(access: Access) -> list[Callable[[Broker], Any]]:
    """Every kind of definition, made, changed and removed."""
    return [
        lambda core: access.declare_vhost("shop"),
        lambda core: access.add_user("ada", hash_password("secret", CHEAP), ["administrator"]),
        lambda core: access.add_user("eve", ""),
        lambda core: access.set_user_limits("eve", {"max-channels": 3}),
        lambda core: access.set_permission("eve", "shop", "", ".*", ".*"),
        lambda core: access.set_permission("eve", "/", "", "", ".*"),
        lambda core: access.set_topic_permission("eve", "shop", "amq.topic", ".*", "a"),
        lambda core: access.add_key("eve", "ID", "secret"),
        lambda core: access.add_key("ada", "ID2", "secret"),
        lambda core: access.api_keys.add("eve", ["read:*"], 0),
        lambda core: access.set_vhost_limits("shop", {"max-queues": 3}),
        lambda core: access.clear_permission("eve", "/"),
        lambda core: access.delete_key("ID2"),
        lambda core: access.delete_user("eve"),
        lambda core: access.delete_vhost("shop"),
    ]


def test_what_is_changed_elsewhere_is_known() -> None:
    copies = Copies()
    for verb in steps_of(copies.here):
        generation = copies.there.generation
        copies.change(verb)
        assert everything(copies.there) == everything(copies.here)
        assert copies.there.generation > generation
    assert everything(copies.there)["users"].keys() == {"ada"}


@pytest.mark.parametrize("number", range(len(steps_of(Access(Replica(1).broker, None)))))
def test_what_is_taken_back_was_never_there(number: int) -> None:
    copies = Copies()
    steps = steps_of(copies.here)
    for verb in steps[:number]:
        copies.change(verb)
    copies.change(steps[number], taken_back=True)
    assert everything(copies.here) == everything(copies.there)
