"""Regions whose queues are apart: by the scope of the credential, or by the name of the server."""

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from botocore.exceptions import ClientError

from leveret.core.errors import InvalidArgument
from leveret.protocols.http.request import Request
from leveret.protocols.sqs.settings import REGIONS_MAX, Settings
from leveret.security.access import EVERYTHING
from tests.cluster.sqs_world import NodeWorld
from tests.protocols.sqs.server import KEY, SECRET, Server, add_key, operate
from tests.protocols.sqs.world import Answer, World, json_request
from tests.server_process import ServerProcess

HOME, AWAY = "us-east-1", "eu-west-1"
REGIONS = f"{HOME}, {AWAY},"


def scope(region: str) -> dict[bytes, bytes]:
    """The header of a request that is signed for a region; these worlds check no signature."""
    return {b"authorization": f"AWS4-HMAC-SHA256 Credential=AK/20260101/{region}/sqs/aws4_request, ".encode()}


class Regions:
    """A world, asked in a region."""

    def __init__(self, world: World) -> None:
        self.world = world

    def ask(self, region: str, action: str, **parameters: Any) -> Answer:
        return self.world.json(action, headers=scope(region), **parameters)

    def do(self, region: str, action: str, **parameters: Any) -> Any:
        answer = self.ask(region, action, **parameters)
        assert answer.status == 200, answer.body
        return answer.json

    def create(self, region: str, name: str, **attributes: str) -> str:
        url: str = self.do(region, "CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def bodies(self, region: str, url: str) -> list[str]:
        found = self.do(region, "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=10)
        return [message["Body"] for message in found.get("Messages", [])]


@pytest.fixture(params=[World, NodeWorld], ids=["server", "cluster"])
def regions(request: pytest.FixtureRequest) -> Iterator[Regions]:
    world: World = request.param(regions=REGIONS)
    if isinstance(world, NodeWorld):
        member = world.members["a"]
        world.run(member.node.decide(lambda replica: member.proxy.broker.runtime.core.declare_vhost(AWAY)))
    else:
        with world.broker.runtime as core:
            core.declare_vhost(AWAY)
    yield Regions(world)
    world.end()


def arn(region: str, name: str) -> str:
    return f"arn:aws:sqs:{region}:000000000000:{name}"


def test_queues_of_two_regions_are_apart(regions: Regions) -> None:
    urls = {region: regions.create(region, "orders") for region in (HOME, AWAY)}
    for region, url in urls.items():
        regions.do(region, "SendMessage", QueueUrl=url, MessageBody=region)
    for region, url in urls.items():
        found = regions.do(region, "GetQueueAttributes", QueueUrl=url, AttributeNames=["QueueArn"])
        assert found["Attributes"] == {"QueueArn": arn(region, "orders")}
        assert regions.bodies(region, url) == [region]
    regions.create(AWAY, "away")
    assert regions.do(HOME, "ListQueues")["QueueUrls"] == [urls[HOME]]
    assert len(regions.do(AWAY, "ListQueues")["QueueUrls"]) == 2
    assert regions.ask(HOME, "GetQueueUrl", QueueName="away").status == 400
    regions.do(HOME, "DeleteQueue", QueueUrl="orders")
    assert regions.do(AWAY, "GetQueueUrl", QueueName="orders")["QueueUrl"] == urls[AWAY]


def test_a_credential_for_another_region_is_refused(regions: Regions) -> None:
    answer = regions.ask("mars-north-1", "ListQueues")
    assert (answer.status, answer.json["__type"].partition("#")[2], answer.json["message"]) == (
        403,
        "InvalidSignatureException",
        "Credential should be scoped to a valid region, not 'mars-north-1'.",
    )


@pytest.mark.parametrize("host", [f"sqs.{AWAY}.example.org", f"{AWAY}.queue.example.org:9324", f"SQS.{AWAY}.localhost"])
def test_an_unsigned_request_names_its_region_by_the_server(regions: Regions, host: str) -> None:
    regions.create(AWAY, "away")
    for name, count in ((host, 1), ("sqs.test", 0), ("sqs.mars.example.org", 0)):
        found = regions.world.json("ListQueues", headers={b"host": name.encode()}).json
        assert len(found.get("QueueUrls", [])) == count


def test_a_client_cannot_name_the_region_as_a_node_does(regions: Regions) -> None:
    regions.create(AWAY, "away")
    regions.create(HOME, "home")
    headers = {**scope(HOME), b"x-leveret-sqs-region": AWAY.encode()}
    assert regions.world.json("SendMessage", headers=headers, QueueUrl="away", MessageBody="x").status == 400
    assert regions.world.json("SendMessage", headers=headers, QueueUrl="home", MessageBody="x").status == 200


def test_dead_letters_stay_in_their_region(regions: Regions) -> None:
    regions.create(AWAY, "dead")
    policy = {"deadLetterTargetArn": arn(AWAY, "dead"), "maxReceiveCount": "1"}
    text = json.dumps(policy)
    answer = regions.ask(HOME, "CreateQueue", QueueName="orders", Attributes={"RedrivePolicy": text})
    expected = f"Value {text} for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist."
    assert (answer.status, answer.json["message"]) == (400, expected)
    url = regions.create(AWAY, "orders", RedrivePolicy=text, VisibilityTimeout="1")
    regions.do(AWAY, "SendMessage", QueueUrl=url, MessageBody="dies")
    assert regions.bodies(AWAY, url) == ["dies"]
    regions.world.later(1)
    wait = partial(regions.do, AWAY, "ReceiveMessage", QueueUrl="dead", WaitTimeSeconds=20, VisibilityTimeout=0)
    assert [message["Body"] for message in wait()["Messages"]] == ["dies"]


def test_move_tasks_are_those_of_a_region(regions: Regions) -> None:
    for region in (HOME, AWAY):
        regions.create(region, "dead")
        policy = json.dumps({"deadLetterTargetArn": arn(region, "dead"), "maxReceiveCount": "1"})
        regions.create(region, "orders", RedrivePolicy=policy)
    answer = regions.ask(HOME, "StartMessageMoveTask", SourceArn=arn(AWAY, "dead"))
    assert answer.json["message"] == "The resource that you specified for the SourceArn parameter doesn't exist."
    regions.do(AWAY, "StartMessageMoveTask", SourceArn=arn(AWAY, "dead"))
    counts = [
        len(regions.do(region, "ListMessageMoveTasks", SourceArn=arn(region, "dead"))["Results"])
        for region in (HOME, AWAY)
    ]
    assert counts == [0, 1]


def test_move_tasks_of_a_region_are_known_after_a_restart(tmp_path: Any) -> None:
    world = World(str(tmp_path), regions=REGIONS)
    try:
        with world.broker.runtime as core:
            core.declare_vhost(AWAY)
        regions = Regions(world)
        regions.create(AWAY, "dead")
        policy = json.dumps({"deadLetterTargetArn": arn(AWAY, "dead"), "maxReceiveCount": "1"})
        regions.create(AWAY, "orders", RedrivePolicy=policy)
        regions.do(AWAY, "StartMessageMoveTask", SourceArn=arn(AWAY, "dead"))
        regions.create(HOME, "dead")
        world.restart()
        found = {
            region: [task.source for task in each.tasks.of("dead")] for region, each in world.account.regions.items()
        }
        assert found == {HOME: [], AWAY: ["dead"]}
    finally:
        world.end()


def test_a_region_without_a_virtual_host_says_what_to_do() -> None:
    world = World(regions=REGIONS)
    try:
        answer = Regions(world).ask(AWAY, "CreateQueue", QueueName="orders")
        assert answer.json["message"] == (
            f"Region {AWAY} has no queues: its virtual host '{AWAY}' does not exist. Create it, and permit the user to"
            " use it."
        )
    finally:
        world.end()


def test_without_the_option_all_regions_see_the_same_queues(world: World) -> None:
    regions = Regions(world)
    url = regions.create(AWAY, "orders")
    assert regions.do("mars-north-1", "ListQueues")["QueueUrls"] == [url]


def test_the_signed_link_of_a_region(regions: Regions) -> None:
    regions.create(AWAY, "away")
    request: Request = json_request("ListQueues", {})
    credential = f"AK%2F20260101%2F{AWAY}%2Fsqs%2Faws4_request"
    link = Request("POST", f"/?X-Amz-Credential={credential}".encode(), request.headers, request.peer)
    link.body = request.body
    assert len(regions.world.handle(link)[0].json["QueueUrls"]) == 1


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ("us-east-1,EU", "sqs_regions has names like us-east-1, by commas, and 'EU' is none"),
        ("a" * 33, "sqs_regions has names like us-east-1"),
        (",".join(f"r-{number}" for number in range(REGIONS_MAX + 1)), "sqs_regions has 101 names; at most 100"),
        ("eu-west-1,queues", "'queues', which is the virtual host of region 'us-east-1' by sqs_vhost"),
    ],
)
def test_names_that_no_region_has(told: str, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        Settings(regions=told, vhost="queues")


def test_boto3_in_two_regions(tmp_path: Any) -> None:
    with ServerProcess(tmp_path, "--sqs-regions", f"{HOME},{AWAY}") as process:
        add_key(process, "guest", KEY, SECRET)
        operate(process, "vhosts", "add", AWAY)
        server = Server(process)
        clients = {region: server.client(region_name=region) for region in (HOME, AWAY, "ap-south-1")}
        clients[HOME].create_queue(QueueName="orders")
        with pytest.raises(ClientError, match="AccessDenied"):
            clients[AWAY].create_queue(QueueName="orders")
        operate(process, "permissions", "set", "guest", EVERYTHING, EVERYTHING, EVERYTHING, "--vhost", AWAY)
        url = clients[AWAY].create_queue(QueueName="orders")["QueueUrl"]
        clients[AWAY].send_message(QueueUrl=url, MessageBody="away")
        assert "Messages" not in clients[HOME].receive_message(QueueUrl=url)
        assert clients[AWAY].receive_message(QueueUrl=url)["Messages"][0]["Body"] == "away"
        with pytest.raises(ClientError, match="valid region, not 'ap-south-1'"):
            clients["ap-south-1"].list_queues()
        for client in clients.values():
            client.close()
