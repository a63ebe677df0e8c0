"""Requests with an Idempotency-Key: done once, and answered again as they were answered the first time.

A request is known by its user, method, target and key. One whose body differs is refused with 422, one that comes while
the first is being answered with 409. What failed is not remembered: it may be corrected and tried again.
"""

import asyncio
import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable

from leveret.protocols.http.request import Refusal, Request
from leveret.protocols.http.response import Answer, Answered, Response
from leveret.runtime.outgoing import NAME_CHARS_MAX
from leveret.runtime.shared.answers import Answers
from leveret.runtime.shared.keys import hashed

KEY_HEADER = b"idempotency-key"
KEY_HELP = "A repeated request with the same key is not done again and gets the same answer, for ten minutes."
ANSWER_BYTES_MAX = 64 << 10  # a larger one is not remembered
REPLAYED = ("Idempotency-Replayed", "true")

_FLYING, _ANSWERED = b"?", b"="
_DIGEST_BYTES = 32
_TOKEN_BYTES = 16

Perform = Callable[[], Answered]


class Idempotency:
    """Does requests once, as far as is remembered."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._tasks: set[asyncio.Task[Answer]] = set()

    def run(self, request: Request, perform: Perform) -> Awaitable[Answer]:
        """Do what a request asks for, or give the answer that it had."""
        key = request.headers[KEY_HEADER]
        if not 0 < len(key) <= NAME_CHARS_MAX:
            raise Refusal(400, f"the header Idempotency-Key has 1 to {NAME_CHARS_MAX} characters")
        task = asyncio.create_task(self._once(request, key, perform))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        # A client that goes does not end it: the answer is remembered for when it asks again.
        return asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Answer]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the client may have gone

    async def _once(self, request: Request, key: bytes, perform: Perform) -> Answer:
        assert request.identity is not None, "a request has an identity by then"
        name = hashed(request.identity.principal.encode(), request.method.encode(), request.target, key)
        digest = hashlib.sha256(request.body).digest()
        mark = _FLYING + digest + secrets.token_bytes(_TOKEN_BYTES)
        known = await self._answers.claim(name, mark)
        if known is not None:
            return _again(known, digest)
        packed = None
        try:
            answer = perform()
            if isinstance(answer, Awaitable):
                answer = await answer
            packed = _packed(answer, digest)
        finally:
            if packed is None:
                await self._answers.drop(name, mark)
            else:
                await self._answers.keep(name, mark, packed)
        return answer


def _packed(answer: Answer, digest: bytes) -> bytes | None:
    """An answer as it is remembered; None if it is not: it failed, is long, or comes in parts."""
    if not isinstance(answer, Response) or answer.status >= 300 or len(answer.body) > ANSWER_BYTES_MAX:
        return None
    head = json.dumps([answer.status, answer.content_type, list(answer.headers)])
    return b"%b%b%b\n%b" % (_ANSWERED, digest, head.encode(), answer.body)


def _again(known: bytes, digest: bytes) -> Response:
    """The answer that a request had; refuses one that is not the same, or not yet answered."""
    kind, before, rest = known[:1], known[1 : 1 + _DIGEST_BYTES], known[1 + _DIGEST_BYTES :]
    if before != digest:
        raise Refusal(422, "this Idempotency-Key was used with another body: use a new key for another request")
    if kind != _ANSWERED:
        wait = (("Retry-After", "1"),)
        raise Refusal(409, "a request with this Idempotency-Key is being answered: wait, then repeat it", wait)
    head, _, body = rest.partition(b"\n")
    status, content_type, headers = _head(head)
    return Response(status, body, content_type, (*headers, REPLAYED))


def _head(head: bytes) -> tuple[int, str | None, list[tuple[str, str]]]:
    """What stands before a body; a writer to Redis must not be able to say what headers cannot."""
    try:
        status, content_type, headers = json.loads(head)
        found = [(name, value) for name, value in headers]
        texts = [content_type or "", *(text for pair in found for text in pair)]
        if type(status) is int and all(isinstance(text, str) and text.isprintable() for text in texts):
            return status, content_type, found
    except (ValueError, TypeError):
        pass
    raise Refusal(409, "what is remembered of this Idempotency-Key cannot be read: use a new key")
