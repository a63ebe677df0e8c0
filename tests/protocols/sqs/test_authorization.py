"""Who may do what: permissions of users, and policies of queues."""

import asyncio
import json
import secrets
from collections.abc import Iterator
from typing import Any
from unittest.mock import Mock, patch

import pytest

from leveret.core.browse import holdings
from leveret.protocols.http.request import Request
from leveret.protocols.sqs.authorization import Asked, decide
from leveret.protocols.sqs.service import ACTIONS, QUEUE_ACTIONS
from leveret.security.keys import AccessKey
from tests.protocols.sqs.world import Answer, World

QUEUE = "arn:aws:sqs:us-east-1:000000000000:orders"
ADA = "arn:aws:iam::000000000000:user/ada"
NEEDS = {
    "configure": ("DeleteQueue", "SetQueueAttributes", "TagQueue", "UntagQueue", "AddPermission", "RemovePermission"),
    "write": ("SendMessage", "SendMessageBatch"),
    "read": (
        "ReceiveMessage",
        "DeleteMessage",
        "DeleteMessageBatch",
        "ChangeMessageVisibility",
        "ChangeMessageVisibilityBatch",
        "PurgeQueue",
    ),
}
ANY = ("GetQueueAttributes", "ListDeadLetterSourceQueues", "ListQueueTags")


class Guarded(World):
    """A service whose requests come from a user, without the work of signing."""

    def __init__(self) -> None:
        super().__init__(auth=True)
        self.user = "ada"
        with self.broker.runtime as core:
            for name in ("ada", "bob"):
                self.access.add_user(name, "")
            core.declare_queue("/", "orders", {})

    def permit(self, **patterns: str) -> None:
        """Let the user into the virtual host, with these permissions only."""
        given = [patterns.get(access, "") for access in ("configure", "write", "read")]
        with self.broker.runtime:
            self.access.set_permission(self.user, "/", *given)

    def policy(self, *statements: dict[str, Any]) -> None:
        """Give the queue a policy."""
        queue = self.account.queues.get("orders")
        with self.broker.runtime:
            self.account.queues.change(queue, {"Policy": json.dumps({"Statement": statements})})

    def handle(self, *requests: Request) -> list[Answer]:
        signed = Mock(verify=Mock(return_value=AccessKey("AKIA", self.user, "x")))
        with patch.object(self.service, "_verifier", signed):
            return super().handle(*requests)

    def denied(self, action: str, **parameters: Any) -> bool:
        answer = self.json(action, **{"QueueUrl": "orders", **parameters})
        return answer.status == 403 and answer.json["__type"].endswith("#AccessDeniedException")


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    world = Guarded()
    yield world
    world.end()


def statement(
    effect: str = "Allow", action: Any = "sqs:SendMessage", principal: Any = ADA, **more: Any
) -> dict[str, Any]:
    return {"Effect": effect, "Action": action, "Principal": {"AWS": principal}, "Resource": QUEUE, **more}


def test_every_action_on_a_queue_has_its_need() -> None:
    assert {*(action for actions in NEEDS.values() for action in actions), *ANY} == set(QUEUE_ACTIONS)
    assert len(QUEUE_ACTIONS) + len(ACTIONS) == 23


@pytest.mark.parametrize("access", NEEDS)
@pytest.mark.parametrize("action", sorted(QUEUE_ACTIONS))
def test_an_action_needs_one_permission(guarded: Guarded, access: str, action: str) -> None:
    guarded.permit(**{access: "^orders$"})
    assert guarded.denied(action) == (action not in (*NEEDS[access], *ANY))


@pytest.mark.parametrize("action", sorted(QUEUE_ACTIONS))
def test_without_a_permission_nothing_is_allowed(guarded: Guarded, action: str) -> None:
    assert guarded.denied(action)
    guarded.permit(configure="^other$", write="^other$", read="^other$")
    assert guarded.denied(action)


def test_a_permission_that_was_taken_away_is_gone_at_once(guarded: Guarded) -> None:
    guarded.permit(write="^orders$")
    assert not guarded.denied("SendMessage", MessageBody="a")
    guarded.permit(write="^other$")
    assert guarded.denied("SendMessage", MessageBody="a")


@pytest.mark.parametrize("whose", ["ada", "bob"])
def test_one_who_waits_and_loses_its_permission_waits_no_longer(guarded: Guarded, whose: str) -> None:
    guarded.permit(read=".*", write=".*")
    guarded.user = "bob"
    guarded.permit(read=".*")
    guarded.user = "ada"

    def revoke() -> None:
        with guarded.broker.runtime:
            guarded.access.set_permission(whose, "/", "", ".*", "")
        guarded.async_broker.loop.call_later(0.01, send)

    def send() -> None:
        guarded.broker.queue("orders").send("late")

    signed = Mock(verify=Mock(return_value=AccessKey("AKIA", "ada", "x")))
    with patch.object(guarded.service, "_verifier", signed):
        assert guarded.poll_while("orders", revoke) == ([] if whose == "ada" else ["late"])
    assert guarded.denied("ReceiveMessage") == (whose == "ada")


def test_a_queue_that_was_made_again_is_decided_anew(guarded: Guarded) -> None:
    guarded.permit(write="^orders$")
    assert not guarded.denied("SendMessage", MessageBody="a")
    with guarded.broker.runtime as core:
        core.delete_queue(core.topology.vhost("/").queues["orders"])
        core.declare_queue("/", "orders", {})
    guarded.policy(statement(effect="Deny"))
    assert guarded.denied("SendMessage", MessageBody="a")


def test_queues_are_made_where_one_may_configure(guarded: Guarded) -> None:
    guarded.permit(configure="^mine-")
    assert not guarded.denied("CreateQueue", QueueName="mine-1")
    assert guarded.denied("CreateQueue", QueueName="yours")


def test_queues_that_one_may_not_use_are_not_seen(guarded: Guarded) -> None:
    guarded.permit(read="^mine")
    assert guarded.do("ListQueues") == {}
    answer = guarded.json("GetQueueUrl", QueueName="orders")
    assert answer.json["__type"].endswith("#QueueDoesNotExist")
    guarded.permit(read="^orders$")
    assert len(guarded.do("ListQueues")["QueueUrls"]) == 1


def test_move_tasks_need_read_on_the_source_and_write_on_the_target(guarded: Guarded) -> None:
    guarded.permit(write=".*")
    assert guarded.denied("StartMessageMoveTask", SourceArn=QUEUE)
    assert guarded.denied("ListMessageMoveTasks", SourceArn=QUEUE)


def test_the_text_of_a_refusal(guarded: Guarded) -> None:
    text = f"User: {ADA} is not authorized to perform: sqs:sendmessage on resource: {QUEUE}"
    assert guarded.json("SendMessage", QueueUrl="orders", MessageBody="a").json["message"] == text


@pytest.mark.parametrize(
    ("statements", "allowed"),
    [
        ([statement()], True),
        ([statement(principal="*")], True),
        ([statement(principal=["bob", ADA])], True),
        ([statement(principal="000000000000")], True),
        ([statement(principal="arn:aws:iam::000000000000:root")], True),
        ([statement(principal="arn:aws:iam::000000000000:user/bob")], False),
        ([statement(action=["SQS:Send*"])], True),
        ([statement(action="*")], True),
        ([statement(action="sqs:ReceiveMessage")], False),
        ([statement(Resource="arn:aws:sqs:*:*:other")], False),
        ([statement(), statement("Deny")], False),
        ([statement(Condition={"IpAddress": {"aws:SourceIp": "127.0.0.0/8"}})], True),
        ([statement(Condition={"NotIpAddress": {"aws:SourceIp": "127.0.0.0/8"}})], False),
        ([statement(Condition={"Bool": {"aws:SecureTransport": "true"}})], False),
        ([statement(Condition={"ArnLike": {"aws:SourceArn": "arn:aws:sns:*"}})], False),
        ([statement(Condition={"ArnLike": {"aws:PrincipalArn": "arn:aws:iam::*:user/a*"}})], True),
    ],
)
def test_a_policy_allows_what_permissions_do_not(
    guarded: Guarded, statements: list[dict[str, Any]], allowed: bool
) -> None:
    guarded.policy(*statements)
    assert guarded.denied("SendMessage", MessageBody="a") != allowed


def test_a_policy_denies_what_permissions_allow(guarded: Guarded) -> None:
    guarded.permit(write=".*", read=".*")
    guarded.policy(statement("Deny", Condition={"ForAnyValue:StringLike": {"aws:Unknown": "x"}}))
    assert guarded.denied("SendMessage", MessageBody="a")
    assert not guarded.denied("ReceiveMessage")


@pytest.mark.parametrize("policy", ["", "{}", "[]", "x", '{"Statement": 5}', '{"Statement": [5, {}]}'])
def test_policies_that_say_nothing(policy: str) -> None:
    assert decide(policy, Asked("0", ADA, "SendMessage", QUEUE, "127.0.0.1", False)) is None


def test_permissions_are_added_and_removed_by_label(world: World) -> None:
    url = world.create("orders")
    given = {"AWSAccountIds": ["111111111111", ADA], "Actions": ["SendMessage", "ReceiveMessage"]}
    world.do("AddPermission", QueueUrl=url, Label="friends", **given)
    policy = json.loads(world.attributes(url)["Policy"])
    assert (policy["Version"], policy["Id"]) == ("2008-10-17", f"{QUEUE}/SQSDefaultPolicy")
    assert policy["Statement"] == [
        {
            "Sid": "friends",
            "Effect": "Allow",
            "Principal": {"AWS": ["arn:aws:iam::111111111111:root", ADA]},
            "Action": ["SQS:SendMessage", "SQS:ReceiveMessage"],
            "Resource": QUEUE,
        }
    ]
    world.do("RemovePermission", QueueUrl=url, Label="friends")
    assert "Policy" not in world.attributes(url)


def test_a_policy_that_was_set_keeps_its_version_and_id(world: World) -> None:
    statement = {"Sid": "mine", "Effect": "Allow", "Principal": "*", "Action": "sqs:*"}
    own = {"Version": "2012-10-17", "Id": "own", "Statement": statement}
    url = world.create("orders", Policy=own)
    world.do("AddPermission", QueueUrl=url, Label="all", AWSAccountIds=["*"], Actions=["SendMessage"])
    policy = json.loads(world.attributes(url)["Policy"])
    assert (policy["Version"], policy["Id"]) == ("2012-10-17", "own")
    assert [each["Sid"] for each in policy["Statement"]] == ["mine", "all"]
    world.do("RemovePermission", QueueUrl=url, Label="all")
    assert json.loads(world.attributes(url)["Policy"]) == {**own, "Statement": [statement]}


def test_the_broker_knows_the_user_who_took_a_message(guarded: Guarded) -> None:
    guarded.permit(write="orders", read="orders")
    guarded.json("SendMessage", QueueUrl="orders", MessageBody="a")
    assert len(guarded.json("ReceiveMessage", QueueUrl="orders").json["Messages"]) == 1
    with guarded.broker.runtime as core:
        orders = core.topology.vhost("/").queues["orders"]
        assert [held.consumer for held in holdings(orders, "leased")] == ["ada"]


DLQ = "arn:aws:sqs:us-east-1:000000000000:dlq"
REDRIVE = {"RedrivePolicy": json.dumps({"deadLetterTargetArn": DLQ, "maxReceiveCount": "3"})}


@pytest.mark.parametrize(
    ("rights", "denied"),
    [
        ({"configure": ".*", "read": "^(orders|new)$", "write": "^dlq$"}, False),
        ({"configure": ".*", "read": ".*"}, True),
        ({"configure": ".*", "write": ".*"}, True),
        ({"configure": ".*", "read": "^dlq$", "write": "^(orders|new)$"}, True),
    ],
)
@pytest.mark.parametrize("action", ["SetQueueAttributes", "CreateQueue"])
def test_a_redrive_policy_needs_read_on_the_queue_and_write_on_its_target(
    guarded: Guarded, action: str, rights: dict[str, str], denied: bool
) -> None:
    with guarded.broker.runtime as core:
        core.declare_queue("/", "dlq", {})
    guarded.permit(**rights)
    name = {"QueueName": "new"} if action == "CreateQueue" else {}
    assert guarded.denied(action, **name, Attributes=REDRIVE) == denied


def test_a_redrive_policy_may_be_set_by_the_policy_of_its_target(guarded: Guarded) -> None:
    with guarded.broker.runtime as core:
        core.declare_queue("/", "dlq", {})
        target = guarded.account.queues.get("dlq")
        allows = {**statement(), "Resource": DLQ}
        guarded.account.queues.change(target, {"Policy": json.dumps({"Statement": [allows]})})
    guarded.permit(configure=".*", read=".*")
    assert not guarded.denied("SetQueueAttributes", Attributes=REDRIVE)


def test_a_move_task_leaves_messages_of_queues_that_the_caller_may_not_write_to(guarded: Guarded) -> None:
    with guarded.broker.runtime as core:
        core.declare_queue("/", "dlq", {})
        core.declare_queue("/", "theirs", {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dlq"})
    guarded.permit(configure=".*", read=".*", write=".*")
    assert not guarded.denied("SetQueueAttributes", Attributes=REDRIVE)
    theirs = guarded.broker.queue("theirs")
    theirs.send("a")
    (taken,) = theirs.receive(1)
    taken.reject()
    guarded.permit(read=".*", write="^orders$")
    assert not guarded.denied("StartMessageMoveTask", SourceArn=DLQ)
    (task,) = guarded.account.tasks.of("dlq")
    while task.status == "RUNNING":
        guarded.async_broker.loop.run_until_complete(asyncio.sleep(0))
    assert (task.status, task.moved, theirs.stats().ready) == ("FAILED", 0, 0)


@pytest.mark.parametrize(
    ("granted", "needed"),
    [
        (["SendMessage"], {"write"}),
        (["ReceiveMessage"], {"read"}),
        (["DeleteMessage", "PurgeQueue"], {"read"}),
        (["GetQueueAttributes"], set()),
        (["*"], {"read", "write"}),
    ],
)
@pytest.mark.parametrize("how", ["AddPermission", "SetQueueAttributes", "CreateQueue"])
def test_nobody_grants_what_it_may_not_do_itself(
    guarded: Guarded, how: str, granted: list[str], needed: set[str]
) -> None:
    def denied() -> bool:
        if how == "AddPermission":
            return guarded.denied(how, Label=secrets.token_hex(4), AWSAccountIds=["*"], Actions=granted)
        policy = {"Statement": [statement(action=[f"sqs:{each}" for each in granted], principal="*")]}
        name = {"QueueName": secrets.token_hex(4)} if how == "CreateQueue" else {}
        return guarded.denied(how, **name, Attributes={"Policy": json.dumps(policy)})

    for access in sorted(needed):
        guarded.permit(**{each: ".*" for each in ("configure", "read", "write") if each != access})
        assert denied(), access
    guarded.permit(configure=".*", **dict.fromkeys(needed, ".*"))
    assert not denied()


def test_a_policy_that_another_user_has_set_can_be_changed_and_narrowed(guarded: Guarded) -> None:
    guarded.policy(statement(Sid="theirs", action="sqs:SendMessage", principal="*"))
    guarded.permit(configure=".*", read=".*")
    guarded.policy(statement(Sid="theirs", principal="arn:aws:iam::000000000000:user/bob"))
    kept = json.loads(guarded.account.queues.get("orders").kept["Policy"])["Statement"]
    denial = statement("Deny", action="sqs:ReceiveMessage", principal="arn:aws:iam::000000000000:user/bob")
    policy = json.dumps({"Statement": [*kept, denial]})
    assert not guarded.denied("SetQueueAttributes", Attributes={"Policy": policy})
    assert not guarded.denied("RemovePermission", Label="theirs")
