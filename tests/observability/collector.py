"""A small collector: takes spans by OTLP over HTTP, as real ones do, and keeps them for tests to look at."""

import gzip
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.waiting import PATIENCE_S


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        collector: Collector = self.server.collector  # type: ignore[attr-defined]
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers["Content-Encoding"] == "gzip":
            sent = gzip.decompress(sent)
        request = ExportTraceServiceRequest.FromString(sent)
        collector.asked.set()
        collector.open.wait(PATIENCE_S)
        collector.headers = dict(self.headers.items())
        status = collector.statuses.pop(0) if collector.statuses else collector.status
        if status == 200:
            collector.take(self.path, request)
        body = ExportTraceServiceResponse().SerializeToString()
        self.send_response(status)
        if not collector.keeps_alive:
            self.send_header("Connection", "close")
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


class Collector:
    """Listens while the block runs; `open.clear()` makes it slow, `status` makes it refuse."""

    def __init__(self, keeps_alive: bool = True) -> None:
        self.keeps_alive = keeps_alive
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.collector = self  # type: ignore[attr-defined]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._came = threading.Condition()
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()
        self.status = 200
        self.statuses: list[int] = []
        """Of the next requests."""
        self.headers: dict[str, str] = {}
        """Of the last request."""
        self.spans: list[Span] = []
        self.services: set[str] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1/traces"

    def take(self, path: str, request: ExportTraceServiceRequest) -> None:
        assert path == "/v1/traces"
        with self._came:
            for resource in request.resource_spans:
                names = {each.key: each.value.string_value for each in resource.resource.attributes}
                self.services.add(names["service.name"])
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self._came.notify_all()

    def wait_for(self, *names: str) -> list[Span]:
        """The spans of these names, as soon as all of them are here."""
        return [self._wait(lambda name=name: self.named(name), name)[0] for name in names]  # type: ignore[misc]

    def _wait(self, look: Callable[[], list[Span]], what: str) -> list[Span]:
        with self._came:
            self._came.wait_for(look, PATIENCE_S)
            found = look()
        assert found, f"no span {what!r} among {[span.name for span in self.spans]}"
        return found

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def attributes(span: Span) -> dict[str, object]:
    """The attributes of a span as values of Python."""
    return {each.key: _value(each.value) for each in span.attributes}


def _value(value: AnyValue) -> object:
    kind = value.WhichOneof("value")
    assert kind is not None
    found = getattr(value, kind)
    return [_value(each) for each in found.values] if kind == "array_value" else found
