"""A server as tasks use it: requests that may be repeated, until an answer comes or too much time has passed.

Everything that a source asks for gives the same when it is asked again, so whatever may pass is tried again: a server
that is restarted, a connection that is lost, a limit that is reached. Connections are kept for the life of the worker
process, which Spark uses for many tasks.
"""

import random
import ssl
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlencode

from leveret.client.network import AnswerLost, ThreadNetwork
from leveret.client.servers import Address, request_bytes, servers_of
from leveret.client.session import Pool, refusal_of
from leveret.core.errors import InvalidArgument, Unreachable
from leveret.http_client import Answer
from leveret.spark.options import Options, required, seconds

REQUEST_S = 60.0
REQUEST_S_MIN = 15.0
"""Of one request to one of many nodes: each gets its share, as one that hangs has to be given up in time."""
RETRY_S = 60.0
DELAY_S = 0.05
DELAY_S_MAX = 2.0
BUSY = frozenset((429, 502, 503))
SERVERS_MAX = 16


@dataclass(frozen=True)
class Origin:
    """Where a server is, or nodes of a cluster, who asks it, and for how long; fit to be sent to another process."""

    url: str
    token: str | None = None
    ca_file: str | None = None
    retry_s: float = RETRY_S
    vhost: str | None = None
    certificate: tuple[str | None, str | None] = (None, None)
    """The files of a client's certificate and its key."""
    request_s: float = REQUEST_S

    @classmethod
    def of(cls, options: Options) -> "Origin":
        """What options say."""
        return cls(
            required(options, "url"),
            options.get("token"),
            options.get("cafile"),
            seconds(options, "retryTimeout", RETRY_S),
            options.get("vhost"),
            (options.get("certfile"), options.get("keyfile")),
            seconds(options, "requestTimeout", REQUEST_S),
        )

    @property
    def server(self) -> "SparkServer":
        """The server, with connections of this process that may be open already."""
        return _server(self)

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What TLS needs beyond the defaults: certificates for the server, and one that the client shows."""
        cert_file, key_file = self.certificate
        if self.ca_file is None and cert_file is None:
            return None
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            if cert_file is not None:
                context.load_cert_chain(cert_file, key_file)
        except OSError as error:
            told = f"caFile={self.ca_file!r}, certFile={cert_file!r}, keyFile={key_file!r}"
            raise InvalidArgument(f"{told}: {error}; name a file of certificates") from None
        return context


class SparkServer:
    """One server, or the nodes of a cluster: whichever answers."""

    def __init__(self, origin: Origin) -> None:
        self._servers = servers_of(origin.url, origin.token, origin.tls, origin.vhost)
        self._network = ThreadNetwork()
        self._pool = Pool(self._servers, self._network)
        self._request_s = max(origin.request_s / len(self._servers), min(origin.request_s, REQUEST_S_MIN))
        self._retry_s = origin.retry_s

    @property
    def address(self) -> Address:
        """The one that is asked now."""
        return self._servers.current

    def ask(self, method: str, path: str, body: Any = None, **query: object) -> Answer:
        """The answer to a request; raises what the server refuses it with."""
        given = {name: value for name, value in query.items() if value is not None}
        line = f"{path}{'?' + urlencode(given) if given else ''}"

        def request(address: Address) -> bytes:
            return request_bytes(method, address.target(line), address.head, body, None)

        deadline_s, delay_s = time.monotonic() + self._retry_s, DELAY_S
        while True:
            problem: Exception
            try:
                answer = self._network.run(self._pool.ask(request, self._request_s, repeatable=True))
                if answer.status < 300:
                    return answer
                problem = refusal_of(answer)
                if answer.status not in BUSY:
                    raise problem
            except AnswerLost as lost:
                problem = lost.reason
            if time.monotonic() + delay_s > deadline_s:
                raise Unreachable(f"{self._servers!r} did not answer for {self._retry_s:.0f} s: {problem}") from problem
            time.sleep(delay_s * random.uniform(0.5, 1.5))
            delay_s = min(2 * delay_s, DELAY_S_MAX)

    def close(self) -> None:
        """Let go of the connections."""
        self._network.run(self._pool.close())


_server = lru_cache(SERVERS_MAX)(SparkServer)


def path_of(*parts: str) -> str:
    """A path of names."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
