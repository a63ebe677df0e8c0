"""Requests to an OAuth2 provider: https only, or this machine; bounded in size and in time; no redirects."""

import json
import ssl
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import closing
from http.client import HTTPException
from threading import Lock, Thread
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from leveret.core.errors import InvalidArgument
from leveret.http_client import ThreadedClient
from leveret.security.peers import is_loopback

ANSWER_BYTES_MAX = 1 << 20
FETCH_S = 10
REQUESTS_MAX = {"GET": 1, "POST": 8}
"""Requests to one URL at the same time: a provider that never ends its answers keeps a thread for each."""
FAILURES = (OSError, HTTPException, InvalidArgument, UnicodeError)
"""What a request may fail with."""

JSON = "application/json"
Fetch = Callable[[str], bytes]


def check_url(name: str, url: str) -> None:
    """Refuse a URL to which another machine could answer in the place of the provider."""
    try:
        parts = urlsplit(url)
        is_complete = bool(parts.hostname) and parts.port != 0 and parts.username is None
    except ValueError:  # no port, or no address of IPv6
        is_complete = False
    local = is_complete and (parts.hostname == "localhost" or is_loopback(parts.hostname or ""))
    if not is_complete or (parts.scheme != "https" and not (parts.scheme == "http" and local)):
        raise InvalidArgument(f"{name} is a URL that begins with https://, not {url[:200]!r}")


class FetchRequest(NamedTuple):
    """What is asked."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None

    @property
    def shown(self) -> str:
        """The URL without what may be secret."""
        return self.url.partition("?")[0]


class Fetcher:
    """Requests to one provider. It waits for an answer for FETCH_S at most: not for the thread of an event loop."""

    def __init__(self, ca: str | None = None) -> None:
        """`ca`: a file with the certificates that those of the provider are checked against."""
        try:
            self._tls = ssl.create_default_context(cafile=ca)
        except OSError as error:
            raise InvalidArgument(f"cannot read the certificates in {ca}: {error}") from None
        self._running: Counter[str] = Counter()
        self._mutex = Lock()

    def get(self, url: str) -> bytes:
        check_url("what a provider is asked at", url)
        return self._within(FetchRequest("GET", url, {"Accept": JSON}))

    def post(self, url: str, form: Mapping[str, str], headers: Mapping[str, str]) -> dict[str, Any]:
        """The JSON object that a form is answered with."""
        check_url("what a provider is asked at", url)
        given = {"Accept": JSON, "Content-Type": "application/x-www-form-urlencoded", **headers}
        return json_object(self._within(FetchRequest("POST", url, given, urlencode(form).encode())))

    def _within(self, request: FetchRequest) -> bytes:
        """The answer within FETCH_S: the timeout of a socket would begin anew with each byte that comes."""
        answer: Future[bytes] = Future()
        key = request.shown
        with self._mutex:
            if self._running[key] >= REQUESTS_MAX[request.method]:
                raise TimeoutError(f"{key} has not answered the last request yet")
            self._running[key] += 1
        Thread(target=self._ask, args=(request, answer), name="leveret-oauth2", daemon=True).start()
        try:
            return answer.result(FETCH_S)
        except TimeoutError:
            raise TimeoutError(f"{key} took over {FETCH_S} s") from None

    def _ask(self, request: FetchRequest, answer: Future[bytes]) -> None:
        try:
            answer.set_result(self._fetch(request))
        except Exception as error:
            answer.set_exception(error)
        finally:
            with self._mutex:
                self._running[request.shown] -= 1

    def _fetch(self, request: FetchRequest) -> bytes:
        parts = urlsplit(request.url)
        tls = self._tls if parts.scheme == "https" else None
        path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        with closing(ThreadedClient(parts.hostname or "", parts.port, FETCH_S, tls)) as client:
            status, told = client.ask(request.method, path, request.headers, request.body, ANSWER_BYTES_MAX + 1)
        if not 200 <= status < 300:
            raise OSError(f"{request.shown} answered {status}")
        return bounded(told)


def json_object(data: bytes) -> dict[str, Any]:
    """A JSON object."""
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidArgument("the answer of the provider is no JSON object")
    return parsed


def bounded(data: bytes) -> bytes:
    """The data, unless it is too much."""
    if len(data) > ANSWER_BYTES_MAX:
        raise InvalidArgument(f"the answer has over {ANSWER_BYTES_MAX} bytes: remove old keys")
    return data
