"""The client of etcd, on a real one."""

import asyncio
import base64
import json
import signal
import ssl
import subprocess
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from leveret.cluster.coordination.etcd import Etcd, EtcdEndpoint, Gateway, GatewayLost, KeyEvent
from leveret.cluster.joined import etcd_of
from leveret.config import ServerOptions
from leveret.core.errors import AccessRefused, InvalidArgument, NotFound, Unreachable
from leveret.security.tls import ClientTls
from leveret.server.clustered import place_of
from tests.cluster.coordination.etcd_process import EtcdProcess, free_ports
from tests.waiting import PATIENCE_S

Use = Callable[[Etcd], Coroutine[Any, Any, None]]


def run(process: EtcdProcess, use: Use, *more: str, **options: Any) -> None:
    """Use a client of an etcd; endpoints before that of the process are tried first."""

    async def main() -> None:
        client = Etcd([*more, process.url], **{"timeout_s": PATIENCE_S, **options})
        try:
            async with asyncio.timeout(PATIENCE_S):
                await use(client)
        finally:
            await client.close()

    asyncio.run(main())


def test_keys_are_put_found_and_deleted(etcd: EtcdProcess, prefix: str) -> None:
    async def use(client: Etcd) -> None:
        first = await client.put(f"{prefix}a", "ä")
        second = await client.put(f"{prefix}b", "2")
        await client.put(f"{prefix}b", "3")
        found = await client.range(prefix)
        assert [(each.key, each.value, each.created) for each in found.keys] == [
            (f"{prefix}a", "ä", first),
            (f"{prefix}b", "3", second),
        ]
        assert found.revision == found.keys[1].changed > second
        await client.delete(f"{prefix}a")
        assert await client.get(f"{prefix}a") is None
        assert (await client.range(f"{prefix}none")).keys == []

    run(etcd, use)


def test_only_one_creates_a_key_and_only_it_removes_it(etcd: EtcdProcess, prefix: str) -> None:
    async def use(client: Etcd) -> None:
        key, hint = f"{prefix}owner", (f"{prefix}hint", "b", 0)
        done = await asyncio.gather(*(client.create(key, str(number)) for number in range(5)))
        assert sorted(each.succeeded for each in done) == [False] * 4 + [True]
        won = next(each for each in done if each.succeeded)
        found = await client.get(key)
        assert found is not None
        assert found.created == won.revision
        assert not (await client.replace(key, won.revision - 1, "other")).succeeded
        assert (await client.replace(key, won.revision, "active")).succeeded
        assert not (await client.remove(key, won.revision - 1, hint)).succeeded
        assert (await client.remove(key, won.revision, hint)).succeeded
        assert [each.key for each in (await client.range(prefix)).keys] == [f"{prefix}hint"]
        assert (await client.create(key, "again", hint=f"{prefix}hint")).succeeded
        assert [each.key for each in (await client.range(prefix)).keys] == [key]

    run(etcd, use)


def test_keys_go_with_their_lease(etcd: EtcdProcess, prefix: str) -> None:
    async def use(client: Etcd) -> None:
        lease = await client.grant(600)
        await client.put(f"{prefix}a", "1", lease)
        found = await client.get(f"{prefix}a")
        assert found is not None
        assert found.lease == lease
        assert await client.keep_alive(lease)
        await client.revoke(lease)
        assert await client.get(f"{prefix}a") is None
        assert not await client.keep_alive(lease)
        await client.revoke(lease)
        with pytest.raises(NotFound, match="lease"):
            await client.put(f"{prefix}a", "1", lease)
        with pytest.raises(NotFound, match="lease"):
            await client.create(f"{prefix}a", "1", lease)

    run(etcd, use)


def test_a_watch_tells_what_happens_in_order(etcd: EtcdProcess, prefix: str) -> None:
    async def use(client: Etcd) -> None:
        before = await client.put(f"{prefix}a", "1")
        await client.put(f"{prefix}b", "2")
        await client.put("/elsewhere", "3")
        seen: list[KeyEvent] = []
        async for events in client.watch(prefix, before):
            seen += events
            if len(seen) == 2:
                await client.delete(f"{prefix}a")
            elif len(seen) == 3:
                break
        assert [(each.key, each.found and each.found.value) for each in seen] == [
            (f"{prefix}a", "1"),
            (f"{prefix}b", "2"),
            (f"{prefix}a", None),
        ]
        assert [each.revision for each in seen] == sorted(each.revision for each in seen)

    run(etcd, use)


def test_a_silent_watch_ends_so_that_all_is_looked_at_again(
    etcd: EtcdProcess, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.cluster.coordination.etcd.IDLE_S", 0.05)

    async def use(client: Etcd) -> None:
        revision = await client.put(f"{prefix}a", "1")
        assert [len(events) async for events in client.watch(prefix, revision + 1)] == []

    run(etcd, use)


def test_a_dead_endpoint_is_passed_over(etcd: EtcdProcess, prefix: str) -> None:
    async def use(client: Etcd) -> None:
        assert (await client.create(f"{prefix}a", "1")).succeeded
        assert (await client.range(prefix)).keys[0].value == "1"

    run(etcd, use, f"http://127.0.0.1:{free_ports(1)[0]}")


def test_whoever_loses_an_endpoint_together_asks_the_next_one_together() -> None:
    both = asyncio.Barrier(2)

    async def fail(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(base64.b64encode(b"/a"))
        await both.wait()
        writer.close()

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(base64.b64encode(b"/a"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        writer.close()

    async def main() -> None:
        servers = [await asyncio.start_server(play, "127.0.0.1", 0) for play in (fail, reply)]
        client = Etcd([f"127.0.0.1:{server.sockets[0].getsockname()[1]}" for server in servers], timeout_s=PATIENCE_S)
        try:
            assert set(await asyncio.gather(client.get("/a"), client.get("/a"))) == {None}
        finally:
            await client.close()
            for server in servers:
                server.close()
                await server.wait_closed()

    asyncio.run(main())


def test_an_outage_is_said_and_survived(tmp_path: Path) -> None:
    async def use(client: Etcd) -> None:
        await client.put("/a", "1")
        process.kill()
        with pytest.raises(Unreachable, match="etcd"):
            await client.put("/a", "2")
        with pytest.raises(GatewayLost):
            await anext(client.watch("/", 1))
        process.start()
        found = await client.get("/a")
        assert found is not None
        assert found.value == "1"
        process.signal(signal.SIGSTOP)
        client._gateway._timeout_s = 0.1
        with pytest.raises(GatewayLost, match="too long") as lost:
            await client.put("/a", "2")
        assert lost.value.sent
        process.signal(signal.SIGCONT)

    with EtcdProcess(tmp_path) as process:
        run(process, use)


def test_a_watch_of_what_was_compacted_ends_so_that_all_is_looked_at_again(etcd: EtcdProcess, prefix: str) -> None:
    async def use(client: Etcd) -> None:
        for _ in range(2):
            revision = await client.put(f"{prefix}a", "1")
        asked = Gateway([etcd.url], None, PATIENCE_S)
        assert (await asked.ask("/v3/kv/compaction", {"revision": revision})).status == 200
        await asked.close()
        assert [len(events) async for events in client.watch(prefix, revision - 1)] == []

    run(etcd, use)


def test_a_user_logs_in_and_again_when_the_token_is_gone_or_users_have_changed(tmp_path: Path) -> None:
    async def use(client: Etcd) -> None:
        await client.put("/a", "1")
        client._token = "stale"
        with pytest.raises(GatewayLost, match="invalid auth token"):  # and not again and again without a word
            await anext(client.watch("/", 1))
        found = await client.get("/a")
        assert found is not None
        assert found.value == "1"
        asked = Gateway([process.url], None, PATIENCE_S)
        added = await asked.ask("/v3/auth/user/add", {"name": "other", "password": "other"}, client._token)
        await asked.close()
        assert added.status == 200
        assert await client.get("/a") == found

    async def refused(client: Etcd) -> None:
        with pytest.raises(AccessRefused, match="etcd"):
            await client.get("/a")

    key = tmp_path / "key"
    key.write_text("not known to others")
    # Such tokens say how many changes of users they know of.
    with EtcdProcess(tmp_path, "--auth-token", f"jwt,priv-key={key},sign-method=HS256,ttl=10m") as process:
        asyncio.run(add_root(process.url))
        run(process, use, user="root", password="secret")
        run(process, refused, user="root", password="other")
        run(process, refused)


async def add_root(url: str, tls: ssl.SSLContext | None = None) -> None:
    """Switch on the users of an etcd."""
    asked = Gateway([url], tls, PATIENCE_S)
    for path, request in [
        ("/v3/auth/user/add", {"name": "root", "password": "secret"}),
        ("/v3/auth/role/add", {"name": "root"}),
        ("/v3/auth/user/grant", {"user": "root", "role": "root"}),
        ("/v3/auth/enable", {}),
    ]:
        assert (await asked.ask(path, request)).status == 200
    await asked.close()


def test_tls_is_spoken_both_show_certificates_and_the_node_logs_in(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "1", "-subj", "/O=etcd", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)

    files = {"etcd_tls_ca": str(certificate), "etcd_tls_cert": str(certificate), "etcd_tls_key": str(key)}
    login = {"etcd_user": "root", "etcd_password": "secret"}

    async def put(**options: str | None) -> None:
        place = {"cluster": "test", "store": "postgresql:///x", "etcd": process.url}
        client = etcd_of(place_of(ServerOptions(**{**place, **files, **login, **options})))  # type: ignore[arg-type]
        client._gateway._timeout_s = PATIENCE_S
        try:
            await client.put("/a", "1")
        finally:
            await client.close()

    async def play() -> None:
        await add_root(process.url, ClientTls(*files.values()).context)
        await put()
        with pytest.raises(Unreachable, match="certificate"):
            await put(etcd_tls_ca=None)
        with pytest.raises(Unreachable, match="certificate"):
            await put(etcd=process.url.replace("127.0.0.1", "localhost"))  # a name that the certificate does not have
        with pytest.raises(Unreachable, match=r"certificate|closed"):
            await put(etcd_tls_cert=None, etcd_tls_key=None)
        with pytest.raises(AccessRefused, match="user and password"):
            await put(etcd_password="other")

    shown = ("--cert-file", str(certificate), "--key-file", str(key))
    wanted = ("--client-cert-auth", "--trusted-ca-file", str(certificate))
    with EtcdProcess(tmp_path, *shown, *wanted, scheme="https") as process:
        asyncio.run(play())


@pytest.mark.parametrize("url", ["ftp://me:secret@host:1", "http://", "http://host:99999999", "http://me:secret@host"])
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgument, match="endpoint") as refusal:
        EtcdEndpoint.parse(url)
    assert "secret" not in str(refusal.value)
    with pytest.raises(InvalidArgument, match="endpoint"):
        Etcd([])


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n" + b"{" * 900,
        b"HTTP/1.1 503 Busy\r\nContent-Length: 26\r\n\r\n" + json.dumps({"error": "no", "code": 14}).encode(),
    ],
    ids=["no-http", "no-object", "no-json", "too-large", "unavailable"],
)
def test_whatever_is_not_an_answer_counts_as_none(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leveret.cluster.coordination.etcd.ANSWER_BYTES_MAX", 500)

    async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(base64.b64encode(b"/a"))
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(reply, "127.0.0.1", 0)
        async with server:
            client = Etcd([f"127.0.0.1:{server.sockets[0].getsockname()[1]}"])
            with pytest.raises(GatewayLost):
                await client.get("/a")
            with pytest.raises(GatewayLost):
                await anext(client.watch("/a", 1))
            await client.close()

    asyncio.run(main())
