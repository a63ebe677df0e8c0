"""Streams in the management API: made, looked at, in definitions, refused."""

from tests.protocols.management.scene import VHOST, Api

STREAM = f"/queues/{VHOST}/clicks"
ARGUMENTS = {"x-queue-type": "stream", "x-max-age": "7D", "x-partitions": 2}


def test_a_stream_tells_of_its_files_and_offsets(api: Api) -> None:
    assert api.call("PUT", STREAM, {"durable": True, "arguments": ARGUMENTS}).status == 201
    for number in range(4):
        body = {"properties": {}, "routing_key": "clicks", "payload": str(number), "payload_encoding": "string"}
        assert api.call("POST", f"/exchanges/{VHOST}/amq.default/publish", body).body == {"routed": True}
    found = api.get(STREAM)
    assert (found["type"], found["messages"], found["segments"], found["readers"]) == ("stream", 4, 2, 0)
    assert [each["messages"] for each in found["partitions"]] == [2, 2]
    assert found["committed_offset"] == 1
    listed = {each["name"]: each["type"] for each in api.get(f"/queues/{VHOST}")}
    assert listed["clicks"] == "stream"
    defined = next(each for each in api.get(f"/definitions/{VHOST}")["queues"] if each["name"] == "clicks")
    assert defined["arguments"] == ARGUMENTS
    api.delete(STREAM)


def test_what_streams_do_not_do_is_refused(api: Api) -> None:
    assert api.call("PUT", STREAM, {"durable": True, "arguments": ARGUMENTS}).status == 201
    asked = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    refused = [
        api.call("DELETE", f"{STREAM}/contents"),
        api.call("POST", f"{STREAM}/get", asked),
    ]
    assert [each.status for each in refused] == [400, 400]
    assert all("stream" in str(each.body) for each in refused)
    api.delete(STREAM)


def test_a_policy_of_streams_is_applied(api: Api) -> None:
    assert api.call("PUT", STREAM, {"durable": True, "arguments": ARGUMENTS}).status == 201
    settings = {"max-age": "1D", "max-length-bytes": 1_000_000, "stream-max-segment-size-bytes": 100_000}
    policy = {"pattern": "clicks", "definition": settings, "apply-to": "streams"}
    assert api.call("PUT", f"/policies/{VHOST}/short", policy).status == 201
    assert settings.items() <= api.get(STREAM)["effective_policy_definition"].items()
    api.delete(f"/policies/{VHOST}/short")
    api.delete(STREAM)
