"""REST on a real server: TLS, web tokens, restarts, and what operators do elsewhere."""

import json
import ssl
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

import leveret
from leveret.server.control import connect
from tests.protocols.sqs.server import running
from tests.server.certificates import Authority
from tests.server_process import ServerProcess
from tests.waiting import PATIENCE_S


def asked(server: ServerProcess, method: str, path: str, token: str, body: Any = None) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    connection.request(method, path, None if body is None else json.dumps(body), {"Authorization": f"Bearer {token}"})
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def guest(server: ServerProcess) -> str:
    return f"http://guest:guest@127.0.0.1:{server.ports['http']}"


def test_tls_and_nothing_else_from_a_client_that_checks(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    own = authority.issue("127.0.0.1")
    with ServerProcess(tmp_path, "--tls-cert", str(own.cert), "--tls-key", str(own.key)) as server:
        url = f"https://guest:guest@127.0.0.1:{server.ports['https']}"
        with leveret.connect(url, tls=ssl.create_default_context(cafile=str(authority.cert))) as client:
            client.queue("orders").send("secret")
        with leveret.connect(url, retries=0) as client, pytest.raises(leveret.Unreachable, match="TLS"):
            client.queue("orders")


def test_web_tokens_of_the_issuer_that_is_named(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"keys": [{**ECAlgorithm.to_jwk(key.public_key(), as_dict=True), "kid": "k"}]}))
    flags = ["--jwt-issuer", "https://issuer.example", "--jwt-audience", "shop", "--jwt-keys", str(keys)]
    claims = {"iss": "https://issuer.example", "aud": "shop", "sub": "alice", "scope": "*:orders"}

    def token(**changes: Any) -> str:
        full = {**claims, "exp": time.time() + 60, **changes}
        return jwt.encode(full, key, "ES256", headers={"kid": "k"})

    with ServerProcess(tmp_path, *flags) as server:
        assert asked(server, "PUT", "/queues/orders", token())[0] == 201
        assert asked(server, "POST", "/queues/orders/messages", token(), {"payload": 1})[0] == 201
        assert asked(server, "PUT", "/queues/other", token())[0] == 403
        assert asked(server, "GET", "/audit", token(tags=["administrator"]))[0] == 403
        assert asked(server, "GET", "/audit", token(tags=["administrator"], scope="manage"))[0] == 200
        for wrong in ({"aud": "other"}, {"iss": "https://other.example"}, {"exp": time.time() - 60}):
            assert asked(server, "GET", "/queues", token(**wrong))[0] == 401


def test_messages_and_acts_survive_a_kill(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server:
        with leveret.connect(guest(server)) as client:
            orders = client.queue("orders")
            done, kept = orders.send_many(["done", "kept"])
            orders.receive()[0].ack()
        server.kill()
        server.start()
        with leveret.connect(guest(server)) as client:
            (message,) = client.queue("orders").receive(10)
            assert (message.id, message.body) == (kept, "kept")
            assert message.id != done
        with connect(str(server.data)) as operator:
            operator.call("users.add", name="ada")
            token = operator.call("tokens.add", user="guest", scopes=["*:*", "manage"])["token"]
        acts = asked(server, "GET", "/audit", token)[1]["acts"]
        assert [(act["by"], act["act"]) for act in acts if act["act"] != "PUT /queues/{queue}"] == [
            ("(operator)", "tokens.add"),
            ("(operator)", "users.add"),
        ]
        assert acts[-1]["path"] == "/queues/orders"
        assert token not in server.text


def test_a_server_that_stops_answers_who_waits(tmp_path: Path) -> None:
    with ServerProcess(tmp_path) as server, leveret.connect(guest(server), retries=0) as client:
        orders = client.queue("orders")
        orders.send("x")
        orders.receive()[0].ack()
        assert server.stop() == 0
        with pytest.raises(leveret.Unreachable):
            orders.send("y")


def test_sqs_and_rest_share_queues(tmp_path: Path) -> None:
    with running(tmp_path) as server, closing(server.client()) as sqs:
        url = sqs.create_queue(QueueName="orders")["QueueUrl"]
        with leveret.connect(f"http://guest:guest@127.0.0.1:{server.process.ports['http']}") as client:
            orders = client.queue("orders", create=False)
            sqs.send_message(QueueUrl=url, MessageBody="by SQS")
            (message,) = orders.receive(wait=5)
            assert message.body in ("by SQS", b"by SQS")
            message.ack()
            orders.send("by REST")
            (row,) = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
            assert row["Body"] == "by REST"
