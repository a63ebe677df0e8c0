"""Spans to a collector by OTLP over HTTP.

The variables of OpenTelemetry count where an option says nothing: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _COMPRESSION
and _CERTIFICATE, each also with TRACES_ in it, OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES.
"""

import gzip
import ssl
import threading
from collections.abc import Mapping
from http.client import HTTPException
from urllib.parse import SplitResult, unquote, urlsplit

from leveret.core.errors import InvalidArgument
from leveret.http_client import ThreadedClient
from leveret.observability.otlp_wire import request
from leveret.observability.spans import TraceSpan

SERVICE = "leveret"
DEFAULT = "http://localhost:4318"
PATH = "/v1/traces"
TIMEOUT_S = 10.0
WAITS_S = (0.5, 1.0, 2.0)  # before a batch is sent again
CLOSE_S = 1.0
AGAIN = frozenset((429, 502, 503, 504))
ANSWER_BYTES_MAX = 65_536


class OtlpSender:
    """A collector, by its URL; see Sender."""

    def __init__(self, endpoint: str | None, environ: Mapping[str, str]) -> None:
        """Send to this URL (with /v1/traces at its end), or to the one that OpenTelemetry's variables name."""
        self._url = url_of(endpoint, environ)
        self._headers = {"Content-Type": "application/x-protobuf", **pairs(_setting(environ, "HEADERS"))}
        self._is_zipped = _setting(environ, "COMPRESSION") == "gzip"
        if self._is_zipped:
            self._headers["Content-Encoding"] = "gzip"
        self._certificate = _setting(environ, "CERTIFICATE") or None
        self._resource = {"service.name": SERVICE, **pairs(environ.get("OTEL_RESOURCE_ATTRIBUTES", ""))}
        if environ.get("OTEL_SERVICE_NAME"):
            self._resource["service.name"] = environ["OTEL_SERVICE_NAME"]
        self._client: ThreadedClient | None = None
        self._closed = threading.Event()
        self._sending = threading.Lock()

    def send(self, spans: list[TraceSpan]) -> bool:
        body = request(self._resource, spans)
        if self._is_zipped:
            body = gzip.compress(body, 1)
        with self._sending:
            return self._send(body)

    def _send(self, body: bytes) -> bool:
        """Send a request until it is answered, or refused for good."""
        for wait_s in (0.0, *WAITS_S):
            if wait_s and self._closed.wait(wait_s):
                return False
            status = self._post(body)
            if status is not None and status not in AGAIN:
                return 200 <= status < 300
        return False

    def close(self) -> None:
        self._closed.set()
        if self._client is not None:
            self._client.stop()
        if self._sending.acquire(timeout=CLOSE_S):
            if self._client is not None:
                self._client.close()
            self._sending.release()

    def _post(self, body: bytes) -> int | None:
        try:
            self._client = self._client or self._new_client()
            return self._client.ask("POST", self._url.path, self._headers, body, ANSWER_BYTES_MAX)[0]
        except (OSError, HTTPException):
            return None

    def _new_client(self) -> ThreadedClient:
        """With the certificates that are in the file now, if it can be read."""
        is_tls = self._url.scheme == "https"
        tls = ssl.create_default_context(cafile=self._certificate) if is_tls else None
        return ThreadedClient(self._url.hostname or "", self._url.port, TIMEOUT_S, tls)


def url_of(endpoint: str | None, environ: Mapping[str, str]) -> SplitResult:
    """Where spans go."""
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT
    chosen = endpoint or environ.get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") or base.rstrip("/") + PATH
    try:
        url = urlsplit(chosen)
        is_complete = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_complete = False
    if not is_complete:
        raise InvalidArgument("tracing_endpoint is a URL such as http://127.0.0.1:4318/v1/traces")
    return url._replace(path=url.path or PATH)


def pairs(text: str) -> dict[str, str]:
    """What a variable such as `name=value,other=value` says; values may have percent signs."""
    found = (each.partition("=") for each in text.split(",") if "=" in each)
    return {name.strip(): unquote(value.strip()) for name, _, value in found}


def _setting(environ: Mapping[str, str], name: str) -> str:
    """A variable of the exporter; the one that is only for traces counts."""
    return environ.get(f"OTEL_EXPORTER_OTLP_TRACES_{name}") or environ.get(f"OTEL_EXPORTER_OTLP_{name}") or ""
