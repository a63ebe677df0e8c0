"""Requests with an Idempotency-Key, one after the other and at the same time."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import leveret
from leveret.protocols.http.idempotency import ANSWER_BYTES_MAX, KEY_HEADER, Idempotency
from leveret.protocols.http.request import HttpPeer, Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response, Streamed, json_response
from leveret.runtime.shared.answers import CLAIM_MS, KEPT_MS, Answers
from leveret.runtime.shared.keys import hashed
from leveret.security.identity import Identity


class Deed:
    """Something to do once: counts how often it was done."""

    def __init__(self, answer: Callable[[int], Answered]) -> None:
        self.count = 0
        self._answer = answer

    def __call__(self) -> Answered:
        self.count += 1
        return self._answer(self.count)


def request(key: str = "k", body: bytes = b"{}", user: str = "bob", line: str = "POST /a?vhost=x") -> Request:
    """A request of somebody."""
    method, target = line.split(" ")
    made = Request(method, target.encode(), {KEY_HEADER: key.encode()}, HttpPeer("127.0.0.1", 1))
    made.body = body
    made.identity = Identity(user, frozenset())
    return made


@pytest.fixture
def clock() -> leveret.ManualClock:
    return leveret.ManualClock()


@pytest.fixture
def idempotency(clock: leveret.ManualClock) -> Idempotency:
    return Idempotency(Answers(clock))


def numbered(count: int) -> Response:
    return json_response({"number": count}, 201, (("X-Number", str(count)),))


def run(*requests: Awaitable[Answer]) -> list[Any]:
    """Their answers, one after the other; a refusal is its status."""

    async def each() -> list[Any]:
        found: list[Any] = []
        for one in requests:
            try:
                found.append(await one)
            except Refusal as refusal:
                found.append(refusal.status)
        return found

    return asyncio.run(each())


def later(idempotency: Idempotency, deed: Deed, **what: Any) -> Awaitable[Answer]:
    async def asked() -> Answer:
        return await idempotency.run(request(**what), deed)

    return asked()


def test_a_repeated_request_has_the_same_answer_and_says_so(idempotency: Idempotency) -> None:
    deed = Deed(numbered)
    first, second = run(*(later(idempotency, deed) for _ in range(2)))
    assert (first.status, first.body, first.content_type) == (second.status, second.body, second.content_type)
    assert [*second.headers] == [*first.headers, ("Idempotency-Replayed", "true")]
    assert deed.count == 1


def test_another_body_under_the_same_key_is_refused(idempotency: Idempotency) -> None:
    deed = Deed(numbered)
    assert run(later(idempotency, deed), later(idempotency, deed, body=b"[]"))[1] == 422
    assert deed.count == 1


@pytest.mark.parametrize(
    "other", [{"key": "l"}, {"user": "eve"}, {"line": "PUT /a?vhost=x"}, {"line": "POST /a?vhost=y"}], ids=str
)
def test_a_request_is_another_one_by_user_method_target_or_key(idempotency: Idempotency, other: dict[str, str]) -> None:
    deed = Deed(numbered)
    run(later(idempotency, deed), later(idempotency, deed, **other))
    assert deed.count == 2


def test_one_that_comes_while_the_first_is_answered_is_told_to_wait(idempotency: Idempotency) -> None:
    async def scene() -> None:
        going_on: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        deed = Deed(lambda count: going_on)
        first = asyncio.ensure_future(idempotency.run(request(), deed))
        while not deed.count:
            await asyncio.sleep(0)
        with pytest.raises(Refusal, match="being answered") as refusal:
            await idempotency.run(request(), deed)
        assert (refusal.value.status, refusal.value.headers) == (409, (("Retry-After", "1"),))
        going_on.set_result(Response(204))
        assert (await first) is going_on.result()
        again = await idempotency.run(request(), deed)
        assert (again.status, deed.count) == (204, 1)

    asyncio.run(scene())


def test_a_client_that_goes_finds_the_answer_when_it_comes_back(idempotency: Idempotency) -> None:
    async def scene() -> None:
        going_on: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        deed = Deed(lambda count: going_on)
        first = asyncio.ensure_future(idempotency.run(request(), deed))
        while not deed.count:
            await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        going_on.set_result(Response(201))
        while True:
            try:
                again = await idempotency.run(request(), deed)
                break
            except Refusal:
                await asyncio.sleep(0)
        assert (again.status, deed.count) == (201, 1)

    asyncio.run(scene())


async def parts() -> Any:
    yield b"x"


def refuse(count: int) -> Response:
    raise Refusal(404, "not there")


@pytest.mark.parametrize(
    "answer",
    [
        refuse,
        lambda count: Response(500),
        lambda count: Response(200, bytes(ANSWER_BYTES_MAX + 1)),
        lambda count: Streamed(parts()),
    ],
    ids=["refused", "failed", "too large", "in parts"],
)
def test_what_is_not_remembered_is_done_again(idempotency: Idempotency, answer: Callable[[int], Answer]) -> None:
    deed = Deed(answer)
    run(*(later(idempotency, deed) for _ in range(2)))
    assert deed.count == 2


@pytest.mark.parametrize(("kept_ms", "count"), [(KEPT_MS - 1, 1), (KEPT_MS, 2)])
def test_an_answer_is_forgotten_after_a_while(
    idempotency: Idempotency, clock: leveret.ManualClock, kept_ms: int, count: int
) -> None:
    deed = Deed(numbered)
    run(later(idempotency, deed))
    clock.advance(kept_ms / 1000)
    run(later(idempotency, deed))
    assert deed.count == count


def test_one_that_never_ends_does_not_block_its_key_for_ever(
    idempotency: Idempotency, clock: leveret.ManualClock
) -> None:
    async def scene() -> None:
        never: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        first = asyncio.ensure_future(idempotency.run(request(), lambda: never))
        await asyncio.sleep(0)
        clock.advance(CLAIM_MS / 1000)
        assert (await idempotency.run(request(), lambda: Response(204))).status == 204
        never.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first

    asyncio.run(scene())


@pytest.mark.parametrize("key", ["", "k" * 1025], ids=["empty", "long"])
def test_a_key_has_a_length(idempotency: Idempotency, key: str) -> None:
    with pytest.raises(Refusal, match="1 to 1024 characters"):
        idempotency.run(request(key), lambda: Response(204))


@pytest.mark.parametrize(
    "head",
    [b"", b"nonsense", b"[200]", b'["200",null,[]]', b'[200,null,[["a","b\\r\\nSet-Cookie: c"]]]', b"[200,7,[]]"],
)
def test_an_answer_that_somebody_else_wrote_is_not_given(idempotency: Idempotency, head: bytes) -> None:
    asked, deed = request(), Deed(numbered)
    name = hashed(b"bob", b"POST", asked.target, b"k")
    planted = b"=" + hashlib.sha256(asked.body).digest() + head + b"\n{}"
    asyncio.run(idempotency._answers.keep(name, b"", planted))
    assert run(later(idempotency, deed)) == [409]
    assert deed.count == 0
