"""What one client may ask of an HTTP server, and how long it may take."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """Without them a stranger could fill the memory with bodies, or take all sockets with requests that never end."""

    target_bytes_max: int = 8_192
    """The path and the query: 414."""
    headers_max: int = 100
    head_bytes_max: int = 32_768
    """All names and values of the headers: 431."""
    body_bytes_max: int = 16 << 20
    """One body: 413."""
    trailers_max: int = 20
    """Trailer fields after a chunked body: 431."""
    trailer_bytes_max: int = 4_096
    """All trailer lines of a request: 431."""
    extensions_max: int = 100
    """Chunks of a request that have extensions: 400."""
    extension_bytes_max: int = 4_096
    """All chunk extensions of a request: 400."""
    pipelined_max: int = 500
    """Requests of one connection that wait for the answer to an earlier one: 429. More than are read in one turn."""
    handshake_s: float = 10
    """TLS."""
    head_s: float = 10
    """From the first byte of a request to the end of its headers, and from the connection to that byte: 408."""
    body_s: float = 30
    """For a body: 408. What has come gives more time, at `body_bytes_per_s`."""
    body_bytes_per_s: int = 16_384
    """The rate at which a body has to come, after `body_s`."""
    body_s_max: float = 300
    """For a body, however large it is: 408."""
    idle_s: float = 75
    """Between two requests of a connection."""
    write_s: float = 60
    """That a client may leave an answer unread."""
    linger_s: float = 2
    """That the rest of a refused request is read and thrown away: closing at once would destroy the answer."""

    def time_for_body(self, size: int) -> float:
        """The seconds after which a body has to be complete, if so many bytes of it have come."""
        return min(self.body_s + size / self.body_bytes_per_s, self.body_s_max)
