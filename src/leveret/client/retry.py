"""What to do about an answer, or about none: read it, refuse by it, or ask again after a while."""

from __future__ import annotations

import random
from typing import NamedTuple, TypeVar

from leveret.client.calls import ClientCall
from leveret.client.servers import UNABLE
from leveret.clock import SystemClock
from leveret.core import errors
from leveret.core.errors import AccessRefused, InvalidReceipt, LeveretError, Unreachable
from leveret.http_client import Answer

RETRIES = 6
BASE_S = 0.05
DELAY_S_MAX = 5.0
REQUEST_S = 30.0

T = TypeVar("T")


def _title(kind: type[LeveretError]) -> str:
    """What a server calls a kind of refusal."""
    words = "".join(f" {letter}" if letter.isupper() else letter for letter in kind.__name__).strip()
    return words.capitalize()


KINDS: dict[str, type[LeveretError]] = {
    _title(kind): kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LeveretError)
}
BY_STATUS: dict[int, type[LeveretError]] = {
    403: AccessRefused,
    404: errors.NotFound,
    502: Unreachable,
    503: Unreachable,
}

UNKNOWN = 401
HOW_TO_SAY_WHO = "name a user and the password in the URL, http://USER:PASSWORD@HOST:PORT, or a token"


class Again(NamedTuple):
    """Ask again after a while."""

    delay_s: float


class RetryAttempts:
    """The attempts at one call."""

    def __init__(self, retries: int = RETRIES) -> None:
        self._left = retries
        self._delay_s = BASE_S
        self._lost = False

    def lost(self, call: ClientCall[T], sent: bool, error: Unreachable) -> float:
        """The connection was lost: how long to wait before the next attempt. `sent`: the server may have it."""
        self._lost = self._lost or sent
        if (sent and not call.again) or self._left <= 0:
            raise error
        return self._next()

    def answered(self, call: ClientCall[T], answer: Answer) -> T | Again:
        """What an answer means: the result, or that it is worth another attempt."""
        if answer.status < 300:
            return call.read(answer)
        refusal = refusal_of(answer)
        if self._lost and isinstance(refusal, InvalidReceipt) and _has_time(call):
            # The attempt whose answer was lost has done it: no other client can have ended a lease that still had time.
            return call.read(answer._replace(body=b""))
        # A server that is unable may have lost a node that had done it.
        unable = answer.status in UNABLE and call.again
        busy = unable or (answer.status == 429 and type(refusal) is LeveretError)
        if not busy or self._left <= 0:
            raise refusal
        asked = answer.headers.get("retry-after", "")
        return Again(max(self._next(), min(float(asked), DELAY_S_MAX) if asked.isdigit() else 0))

    def _next(self) -> float:
        """Twice as long as before, and not the same for all who lost the same server."""
        self._left -= 1
        delay_s = self._delay_s * random.uniform(0.5, 1.5)
        self._delay_s = min(self._delay_s * 2, DELAY_S_MAX)
        return delay_s


def refusal_of(answer: Answer) -> LeveretError:
    """The exception that the embedded broker would have raised."""
    told = answer.json()
    detail = str(told.get("detail") or told.get("reason") or f"the server answered {answer.status}")
    if answer.status == UNKNOWN:
        return AccessRefused(f"{detail.partition(':')[0]}: {HOW_TO_SAY_WHO}")
    kind = KINDS.get(str(told.get("title")), BY_STATUS.get(answer.status, LeveretError))
    return kind(detail)


def _has_time(call: ClientCall[T]) -> bool:
    """Whether the lease that a call settles has not expired."""
    return call.ends is not None and call.ends.timestamp() * 1000 > SystemClock().now_ms()
