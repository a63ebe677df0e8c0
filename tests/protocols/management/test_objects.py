"""Queues, exchanges, bindings, users and settings: made, changed, looked at, deleted, refused."""

from typing import Any

import pytest

from leveret.protocols.management.refusals import CHOICES
from tests.protocols.management.scene import VHOST, Api
from tests.server_process import ServerProcess

QUEUES, EXCHANGES = f"/queues/{VHOST}", f"/exchanges/{VHOST}"
BETWEEN = f"/bindings/{VHOST}/e/orders/q/orders"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"{QUEUES}/made", {"durable": True, "arguments": {"x-queue-type": "quorum"}}),
        (f"{EXCHANGES}/made", {"type": "headers", "durable": True, "internal": True}),
        ("/vhosts/made", {"description": "d", "tags": "a,b", "default_queue_type": "quorum"}),
        ("/users/made", {"password": "long enough", "tags": ["monitoring"]}),
        (f"/policies/{VHOST}/made", {"pattern": "^x", "definition": {"max-length": 1}}),
        (f"/operator-policies/{VHOST}/made", {"pattern": "^x", "definition": {"max-length": 1}}),
        ("/global-parameters/made", {"value": [1, "two", None]}),
    ],
)
def test_an_object_is_made_changed_and_deleted(api: Api, path: str, body: Any) -> None:
    assert api.call("GET", path).status == 404
    assert api.call("DELETE", path).status == 404
    assert api.call("PUT", path, body).status == 201
    assert api.call("PUT", path, body).status == 204
    assert api.call("HEAD", path).status == 200
    assert api.get(path)["name"] == "made"
    api.delete(path)
    status, told, _ = api.call("GET", path)
    assert (status, told) == (404, {"error": "Object Not Found", "reason": "Not Found"})


@pytest.mark.parametrize(
    ("method", "path", "body", "listed"),
    [
        ("PUT", f"{QUEUES}/php", {"durable": True, "arguments": []}, f"{QUEUES}/php"),
        ("PUT", f"{EXCHANGES}/php", {"type": "direct", "arguments": []}, f"{EXCHANGES}/php"),
        ("POST", BETWEEN, {"routing_key": "php", "arguments": []}, f"{BETWEEN}/php"),
    ],
)
def test_an_empty_list_of_arguments_is_an_empty_table(api: Api, method: str, path: str, body: Any, listed: str) -> None:
    assert api.call(method, path, body).status == 201
    assert api.get(listed)["arguments"] == {}
    api.delete(listed)


def test_the_firehose_of_a_virtual_host_is_turned_on_and_off(api: Api) -> None:
    path, told = "/vhosts/watched", {"description": "d", "tags": "a", "default_queue_type": "quorum"}
    assert api.call("PUT", path, told).status == 201
    assert api.get(path)["tracing"] is False
    for tracing in (True, "false", True, False):
        assert api.call("PUT", path, {"tracing": tracing}).status == 204
        found = api.get(path)
        assert found["tracing"] is (tracing is True)
        assert (found["description"], found["tags"], found["default_queue_type"]) == ("d", ["a"], "quorum")
    assert api.call("PUT", path, {"tracing": "perhaps"}).status == 400
    assert api.call("PUT", "/vhosts/also", {"tracing": True}).status == 201
    assert api.call("PUT", "/vhosts/also", {"description": "e"}).status == 204
    assert api.get("/vhosts/also")["tracing"] is True
    trace = api.get("/exchanges/watched/amq.rabbitmq.trace")
    assert (trace["type"], trace["internal"], trace["durable"]) == ("topic", True, True)
    api.delete(path)
    api.delete("/vhosts/also")


def test_a_slash_at_the_end_of_a_path_is_ignored(api: Api) -> None:
    for path in ("/overview", QUEUES, f"{QUEUES}/orders", f"{QUEUES}/orders/bindings", "/health/checks/alarms"):
        assert api.call("GET", f"{path}/").status == api.call("GET", path).status == 200, path
    assert api.get(f"{QUEUES}/orders/")["name"] == "orders"
    assert api.call("PUT", f"{QUEUES}/slashed/", {"durable": True}).status == 201
    assert api.get(f"{QUEUES}/slashed")["name"] == "slashed"
    assert api.call("DELETE", f"{QUEUES}/slashed/").status == 204
    assert api.call("GET", "/overview//").status == 404
    assert api.call("GET", "/nope/").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "reason"),
    [
        ("PUT", f"{QUEUES}/orders", {"durable": False}, 400, "inequivalent arg 'durable' for queue 'orders'"),
        ("PUT", f"{QUEUES}/bad", {"durable": "x"}, 400, "durable is not a boolean"),
        ("PUT", f"{QUEUES}/bad", {"arguments": {"x-queue-type": "nope"}}, 400, "x-queue-type"),
        ("PUT", f"{QUEUES}/bad", {"arguments": {"$nope": 1}}, 400, "arguments"),
        ("PUT", f"{QUEUES}/bad", {"arguments": {"x-queue-type": "quorum"}}, 400, "non-durable"),
        ("PUT", f"{QUEUES}/bad", {"arguments": [1]}, 400, "arguments"),
        ("PUT", f"{QUEUES}/bad", b"[]", 400, "not_json"),
        ("PUT", f"{QUEUES}/bad", b"{", 400, "not_json"),
        ("PUT", f"{QUEUES}/amq.bad", {}, 401, "reserved prefix"),
        ("PUT", "/queues/nowhere/bad", {}, 404, "Not Found"),
        ("PUT", f"{QUEUES}/{'q' * 300}", {}, 400, "the limit is 255"),
        ("DELETE", f"{QUEUES}/idle?if-empty=maybe", None, 204, None),
        ("PUT", f"{EXCHANGES}/orders", {"type": "topic"}, 400, "inequivalent arg 'durable' for exchange 'orders'"),
        ("PUT", f"{EXCHANGES}/bad", {"type": "nope"}, 400, "exchange type 'nope'"),
        ("DELETE", f"{EXCHANGES}/amq.direct", None, 401, "not allowed"),
        ("DELETE", f"{EXCHANGES}/orders?if-unused=true", None, 400, "exchange 'orders' in vhost 'scene' in use"),
        ("POST", f"/bindings/{VHOST}/e/nope/q/orders", {}, 404, "Not Found"),
        ("POST", f"/bindings/{VHOST}/e/orders/x/orders", {}, 404, "Not Found"),
        ("POST", f"/bindings/{VHOST}/e/amq.default/q/orders", {}, 401, "default exchange"),
        ("POST", BETWEEN, {"routing_key": "k" * 256}, 400, "the limit is 255"),
        ("PUT", "/users/bad", {"password": "x"}, 400, "tags_not_present"),
        ("PUT", "/users/bad", {"password": "x", "password_hash": "x", "tags": ""}, 400, "both_password"),
        ("PUT", "/users/bad", {"password_hash": "x", "tags": ""}, 400, "password hash cannot be read"),
        ("PUT", "/users/bad", {"password": "x" * 2_000, "tags": ""}, 400, "the limit is 1024"),
        ("PUT", "/users/bad", {"password": "long enough", "tags": "emperor"}, 400, "'emperor'"),
        ("PUT", "/users/bad", {"password": "7 chars", "tags": ""}, 400, "has 7 characters, the minimum is 8"),
        ("POST", "/auth/hash_password", {}, 400, "key_missing,password"),
        ("POST", "/auth/hash_password", {"password": "x" * 2_000}, 400, "the limit is 1024"),
        ("DELETE", "/users/guest", None, 400, "last administrator"),
        ("POST", "/users/bulk-delete", {"users": ["alice", "missing"]}, 400, "no_such_user: missing"),
        ("POST", "/users/bulk-delete", {}, 400, "[{key_missing,users}]"),
        ("POST", "/users/bulk-delete", {"users": ["x"] * 1_001}, 400, "the limit is 1000"),
        ("PUT", f"/permissions/{VHOST}/missing", {"configure": "", "write": "", "read": ""}, 400, "vhost_or_user"),
        ("PUT", f"/permissions/{VHOST}/alice", {"configure": "", "write": ""}, 400, "[{key_missing,read}]"),
        ("PUT", f"/permissions/{VHOST}/alice", {"configure": "(", "write": "", "read": ""}, 400, "expression"),
        ("PUT", f"/policies/{VHOST}/bad", {"pattern": "(", "definition": {"max-length": 1}}, 400, "expression"),
        (
            "PUT",
            f"/parameters/vhost-limits/{VHOST}/limits",
            {"value": {"nope": "x"}},
            400,
            'terms [{<<"nope">>,<<"x">>}]',
        ),
        ("PUT", f"/parameters/operator_policy/{VHOST}/p", {"value": {"definition": {}}}, 400, "no policy provided"),
        ("PUT", f"/policies/{VHOST}/bad", {"pattern": "", "definition": {}}, 400, "no policy provided"),
        ("PUT", f"/policies/{VHOST}/bad", {"pattern": "x"}, 400, "[{key_missing,definition}]"),
        ("PUT", f"/parameters/shovel/{VHOST}/x", {"value": {}}, 400, "component shovel not found"),
        ("PUT", "/global-parameters/x", {}, 400, "[{key_missing,value}]"),
        ("PUT", "/global-parameters/x", {"value": "x" * 70_000}, 400, "over 65536 bytes"),
        ("PUT", "/user-limits/alice/nope", {"value": 1}, 400, 'Unrecognised terms [{<<"nope">>,1}] in user-limits'),
        (
            "PUT",
            "/user-limits/alice/max-channels",
            {"value": []},
            400,
            "max-channels should be a number, actually was []",
        ),
        ("DELETE", f"/vhost-limits/{VHOST}/nope", None, 400, "Unrecognised terms"),
        ("PUT", "/user-limits/missing/max-channels", {"value": 1}, 404, "Not Found"),
        ("POST", f"{QUEUES}/orders/actions", {"action": "dance"}, 400, "'dance' is not known"),
    ],
)
def test_a_change_is_refused(api: Api, method: str, path: str, body: Any, status: int, reason: str | None) -> None:
    answer = api.call(method, path, body)
    assert answer.status == status, answer.body
    if reason is not None:
        assert reason in answer.body["reason"]


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (
            "policies",
            {"definition": {"nope": 1, "odd": "x"}},
            '[{<<"nope">>,1},{<<"odd">>,<<"x">>}] are not recognised policy settings',
        ),
        ("policies", {"definition": {"max-length": -1}}, "-1 is not a valid maximum length"),
        ("policies", {"definition": {"message-ttl": "x"}}, '<<"x">> is not a valid message TTL'),
        ("policies", {"definition": {"expires": 0}}, "0 is not a valid queue expiry"),
        ("policies", {"definition": {"overflow": "odd"}}, '<<"odd">> is not a valid overflow value'),
        ("policies", {"definition": {"queue-version": 3}}, "3 is not a valid queue-version value"),
        (
            "policies",
            {"definition": {"dead-letter-exchange": {"a": [1, None]}}},
            '#{<<"a">> => [1,null]} is not a valid dead letter exchange name',
        ),
        ("policies", {"definition": [1]}, "definition must be a dictionary: [1]"),
        (
            "policies",
            {"definition": {"max-length": 1}, "apply-to": "nope"},
            f"apply-to 'nope' unrecognised; should be one of: {CHOICES}",
        ),
        (
            "policies",
            {"definition": {"max-length": 1}, "priority": "high"},
            'priority should be a number, actually was <<"high">>',
        ),
        ("policies", {"definition": {"max-length": 1}, "pattern": 5}, "pattern should be a binary but was 5"),
        (
            "operator-policies",
            {"definition": {"overflow": "drop-head"}},
            '[{<<"overflow">>,<<"drop-head">>}] are not recognised policy settings',
        ),
        ("vhost-limits", {"value": 1}, 'Unrecognised terms [{<<"bad">>,1}] in limits'),
    ],
)
def test_a_policy_or_limit_is_refused_in_rabbitmqs_words(api: Api, path: str, body: Any, text: str) -> None:
    answer = api.call("PUT", f"/{path}/{VHOST}/bad", {"pattern": "x", **body})
    assert answer.status == 400
    assert answer.body == {"error": "bad_request", "reason": f"Validation failed\n\n{text}\n"}


def test_a_limit_that_is_no_number_is_refused_in_rabbitmqs_words(api: Api) -> None:
    answer = api.call("PUT", f"/vhost-limits/{VHOST}/max-queues", {"value": "x"})
    text = 'max-queues should be a number, actually was <<"x">>'
    assert (answer.status, answer.body["reason"]) == (400, f"Validation failed\n\n{text}\n")


@pytest.mark.parametrize(("method", "path"), [("PATCH", f"{QUEUES}/orders"), ("POST", "/overview")])
def test_a_method_that_is_not_there(api: Api, method: str, path: str) -> None:
    answer = api.call(method, path)
    assert (answer.status, answer.body) == (405, b"")
    assert "GET" in answer.headers["allow"]


def test_nothing_is_at_an_unknown_path(api: Api) -> None:
    assert api.call("GET", "/nosuch").body == {"error": "Object Not Found", "reason": "Not Found"}


# Bindings


@pytest.mark.parametrize("quoting", ["{key}", "{quoted}"])
@pytest.mark.parametrize(
    ("routing_key", "arguments"),
    [("", {}), ("#", {}), ("a b/c~d", {}), ("é", {"x": 1}), ("", {"x": [1, {"y": True}]}), ("%23", {})],
)
def test_a_binding_is_found_by_its_key(api: Api, routing_key: str, arguments: Any, quoting: str) -> None:
    from urllib.parse import quote, unquote

    status, _, headers = api.call("POST", BETWEEN, {"routing_key": routing_key, "arguments": arguments})
    assert status == 201
    key = unquote(headers["location"].split("/", 1)[1])
    row = next(row for row in api.get(BETWEEN) if row["properties_key"] == key)
    assert (row["routing_key"], row["arguments"]) == (routing_key, arguments)
    path = f"{BETWEEN}/{quoting.format(key=key.replace(' ', '%20'), quoted=quote(key, safe=''))}"
    if routing_key != "%23" or quoting == "{quoted}":
        assert api.get(path)["routing_key"] == routing_key
    api.delete(f"{BETWEEN}/{quote(key, safe='')}")
    assert all(row["properties_key"] != key for row in api.get(BETWEEN))


def test_every_queue_is_bound_to_the_default_exchange(api: Api) -> None:
    row = api.get(f"{QUEUES}/orders/bindings")[0]
    assert (row["source"], row["destination"], row["properties_key"]) == ("", "orders", "orders")
    assert row in api.get(f"{EXCHANGES}/amq.default/bindings/source")


def test_exchanges_are_bound_to_exchanges(api: Api) -> None:
    rows = api.get(f"{EXCHANGES}/copies/bindings/destination")
    assert [(row["source"], row["destination_type"]) for row in rows] == [("orders", "exchange")]
    assert rows == api.get(f"/bindings/{VHOST}/e/orders/e/copies")


# Settings


def test_a_queue_tells_which_policies_it_has(api: Api) -> None:
    queue = api.get(f"{QUEUES}/orders")
    assert (queue["policy"], queue["operator_policy"]) == ("long", "cap")
    assert queue["effective_policy_definition"] == {"max-length": 1000, "message-ttl": 600_000}


def test_limits_of_a_virtual_host_hold_for_the_api_too(api: Api) -> None:
    api.put("/vhosts/small")
    api.put("/vhost-limits/small/max-queues", {"value": 1})
    assert api.get("/vhost-limits/small") == [{"vhost": "small", "value": {"max-queues": 1}}]
    api.put("/queues/small/one", {"durable": True})
    status, told, _ = api.call("PUT", "/queues/small/two", {"durable": True})
    assert (status, told["error"]) == (400, "bad_request")
    api.delete("/vhost-limits/small/max-queues")
    assert api.get("/vhost-limits/small") == []
    api.put("/queues/small/two", {"durable": True})
    api.delete("/vhosts/small")


def test_a_parameter_is_a_limit_or_the_policy_of_an_operator(api: Api) -> None:
    value = {"pattern": "^p", "definition": {"expires": 1_000}, "priority": 1, "apply-to": "queues"}
    path = f"/parameters/operator_policy/{VHOST}/by-parameter"
    api.put(path, {"value": value})
    assert api.get(path)["value"] == value
    assert api.get(f"/operator-policies/{VHOST}/by-parameter")["priority"] == 1
    api.delete(path)
    assert api.call("GET", path).status == 404


def test_the_cluster_has_a_name(api: Api) -> None:
    api.put("/cluster-name", {"name": "hare"})
    assert api.get("/cluster-name") == {"name": "hare"}
    assert api.get("/overview")["cluster_name"] == "hare"


def test_a_queue_is_paused_and_resumed(api: Api) -> None:
    api.put(f"{QUEUES}/sleepy", {"durable": True})
    for action, state in (("pause", "paused"), ("resume", "running")):
        api.post(f"{QUEUES}/sleepy/actions", {"action": action})
        assert api.get(f"{QUEUES}/sleepy")["state"] == state


# Users


def test_a_hash_of_the_api_opens_the_door(api: Api) -> None:
    hashed = api.get("/auth/hash_password/open%20sesame")["ok"]
    api.put("/users/ali", {"password_hash": hashed, "tags": "management"})
    assert Api(api.port, "ali", "open sesame").get("/whoami") == {"name": "ali", "tags": ["management"]}
    assert api.get("/users/ali")["password_hash"] == hashed
    api.post("/users/bulk-delete", {"users": ["ali"]})


def test_a_hash_of_a_password_in_a_body_opens_the_door(api: Api) -> None:
    hashed = api.post("/auth/hash_password", {"password": "open sesame"})["ok"]
    api.put("/users/cassim", {"password_hash": hashed, "tags": "management"})
    assert Api(api.port, "cassim", "open sesame").get("/whoami")["name"] == "cassim"
    api.delete("/users/cassim")


def test_our_own_hash_can_be_put_back(api: Api) -> None:
    api.put("/users/baba", {"password": "long enough", "tags": "management"})
    shown = api.get("/users/baba")
    api.delete("/users/baba")
    api.put("/users/baba", shown)
    assert Api(api.port, "baba", "long enough").get("/whoami")["name"] == "baba"
    api.delete("/users/baba")


def test_changing_a_user_keeps_his_limits(api: Api) -> None:
    api.put("/users/alice", {"password": "wonderland", "tags": "management,policymaker"})
    assert api.get("/users/alice")["limits"] == {"max-connections": 10}


def test_secrets_are_not_logged(api: Api, server: Any) -> None:
    api.get("/auth/hash_password/verysecret1")
    api.put("/users/quiet", {"password": "verysecret2", "tags": ""})
    api.delete("/users/quiet")
    server.wait_for("DELETE /api/users/quiet")
    assert "verysecret" not in server.text


def test_a_quorum_queue_counts_the_dead_letters_that_it_holds(api: Api) -> None:
    arguments = {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-strategy": "at-least-once",
        "x-dead-letter-exchange": "no-such-exchange",
    }
    path = f"{QUEUES}/holding"
    assert api.call("PUT", path, {"durable": True, "arguments": arguments}).status == 201
    message = {"routing_key": "holding", "payload": "four", "payload_encoding": "string", "properties": {}}
    assert api.call("POST", f"{EXCHANGES}/amq.default/publish", message).status == 200
    wanted = {"count": 1, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert api.call("POST", f"{path}/get", wanted).status == 200
    queue = api.get(path)
    assert (queue["messages_dlx"], queue["message_bytes_dlx"], queue["messages_ready"]) == (1, 4, 0)
    api.delete(path)


@pytest.fixture(scope="module")
def policymaker(server: ServerProcess) -> Api:
    """A policymaker who may do anything in the virtual host."""
    api = Api(server.ports["http"])
    api.put("/users/maker", {"password": "longenough", "tags": "policymaker"})
    api.put(f"/permissions/{VHOST}/maker", {"configure": ".*", "write": ".*", "read": ".*"})
    return Api(server.ports["http"], "maker", "longenough")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"/parameters/operator_policy/{VHOST}/sneaky", {"pattern": ".*", "definition": {"max-length": 1}}),
        (f"/parameters/vhost-limits/{VHOST}/limits", {"max-queues": 1}),
    ],
)
def test_operator_policies_and_limits_are_set_by_administrators_only(
    api: Api, policymaker: Api, path: str, value: Any
) -> None:
    body = {"value": value}
    refused = policymaker.call("PUT", path, body)
    assert refused.status == 401, refused
    assert refused.body["reason"] == "Not administrator user"
    before = api.call("GET", path)
    api.put(path, body)
    assert policymaker.call("GET", path).status == 200
    assert policymaker.call("DELETE", path).status == 401
    if before.status == 200:
        api.put(path, {"value": before.body["value"]})
    else:
        api.delete(path)


def test_messages_are_moved_by_those_who_may_read_the_source_and_write_the_destination(
    api: Api, server: ServerProcess
) -> None:
    for name in ("from", "to"):
        api.put(f"/queues/{VHOST}/moved-{name}", {"durable": True})
    api.put("/users/mover", {"password": "longenough", "tags": "management"})
    mover = Api(server.ports["http"], "mover", "longenough")
    for rights, status in (
        ({"read": "^moved-from$", "write": "^moved-to$"}, 200),
        ({"read": "^moved-to$", "write": "^moved-to$"}, 401),
        ({"read": "^moved-from$", "write": "^(amq.default|moved-from)$"}, 401),
    ):
        api.put(f"/permissions/{VHOST}/mover", {"configure": ".*", **rights})
        answer = mover.call("POST", f"/queues/{VHOST}/moved-from/move", {"destination": "moved-to"})
        assert answer.status == status, rights


def test_an_impersonator_publishes_as_another_user(api: Api, server: ServerProcess) -> None:
    api.put("/users/relay", {"password": "longenough", "tags": "management,impersonator"})
    api.put(f"/permissions/{VHOST}/relay", {"configure": "", "write": ".*", "read": ""})
    relay = Api(server.ports["http"], "relay", "longenough")
    properties = {"user_id": "guest"}
    body = {"properties": properties, "routing_key": "idle", "payload": "x", "payload_encoding": "string"}
    assert relay.call("POST", f"/exchanges/{VHOST}/amq.default/publish", body).status == 200
