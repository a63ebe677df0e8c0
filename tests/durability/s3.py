"""As much of an S3 server as blobs and archives need: put (also only a new object), get, head, delete and list."""

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

XMLNS = "http://s3.amazonaws.com/doc/2006-03-01/"


class Bucket(ThreadingHTTPServer):
    """The objects of all buckets by path; `broken` makes every request fail."""

    daemon_threads = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.objects: dict[str, bytes] = {}
        self.environ = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.server_address[1]}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": "secret",
        }
        """What lets obstore find it."""
        self.broken = False
        self.refused = 0


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Bucket
    protocol_version = "HTTP/1.0"  # a connection for each: none is left open at the end

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.is_broken():
            return
        path = unquote(urlsplit(self.path).path)
        if self.headers["If-None-Match"] == "*" and path in self.server.objects:
            self.answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
        else:
            self.server.objects[path] = body
            self.answer(200)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.is_broken():
            return
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if "list-type" in query:
            self.answer(200, self.listing(unquote(url.path).rstrip("/"), query.get("prefix", [""])[0]))
            return
        found = self.server.objects.get(unquote(url.path))
        if found is not None and (part := re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")):
            first, last = int(part[1]), min(int(part[2]), len(found) - 1)
            self.answer(206, found[first : last + 1], {"Content-Range": f"bytes {first}-{last}/{len(found)}"})
        else:
            self.answer(404 if found is None else 200, found or b"")

    def do_DELETE(self) -> None:
        if not self.is_broken():
            self.server.objects.pop(unquote(urlsplit(self.path).path), None)
            self.answer(204)

    def do_POST(self) -> None:
        """Delete many; obstore does so even for one."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.is_broken():
            return
        bucket = unquote(urlsplit(self.path).path).rstrip("/")
        keys = [part.partition("</Key>")[0] for part in body.split("<Key>")[1:]]
        for key in keys:
            self.server.objects.pop(f"{bucket}/{key}", None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        self.answer(200, f'<DeleteResult xmlns="{XMLNS}">{deleted}</DeleteResult>'.encode())

    def is_broken(self) -> bool:
        if not self.server.broken:
            return False
        self.server.refused += 1
        self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        return True  # whatever it is by now: whoever was refused may have mended it

    def listing(self, bucket: str, prefix: str) -> bytes:
        found = [
            f"<Contents><Key>{escape(path[len(bucket) + 1 :])}</Key><Size>{len(body)}</Size><ETag>&quot;0&quot;</ETag>"
            "<LastModified>2026-01-31T00:00:00.000Z</LastModified></Contents>"
            for path, body in self.server.objects.items()
            if path.startswith(f"{bucket}/{prefix}")
        ]
        return (
            f'<ListBucketResult xmlns="{XMLNS}"><IsTruncated>false</IsTruncated>{"".join(found)}</ListBucketResult>'
        ).encode()

    def answer(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"0"')
        self.send_header("Last-Modified", "Sat, 31 Jan 2026 00:00:00 GMT")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def handle(self) -> None:
        """Answer; a client that was closed meanwhile wants no answer."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def s3() -> Iterator[Bucket]:
    """A server on a port of its own."""
    with Bucket() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
