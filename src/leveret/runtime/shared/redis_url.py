"""Where Redis is: redis://[user][:password]@host[:port][/database], or rediss:// with TLS."""

from urllib.parse import parse_qsl, urlsplit

from leveret.core.errors import InvalidArgument

SCHEMES = ("redis", "rediss")
CHECKS = {"ssl_cert_reqs": "required", "ssl_check_hostname": "true"}
"""Settings in the query that have one value only: a certificate and its name are always checked."""


def check_redis_url(url: str) -> str:
    """The URL, if it is one; what is wrong with it is said without repeating it, for it may have a password."""
    try:
        parts = urlsplit(url)
        database = parts.path.strip("/") or "0"
        fine = parts.scheme in SCHEMES and parts.hostname and parts.port != 0 and database.isdecimal()
    except ValueError:
        fine = False
    if not fine:
        raise InvalidArgument("redis is a URL such as redis://host:6379/0, or rediss:// for TLS: correct it")
    for name, value in parse_qsl(parts.query):
        if CHECKS.get(name, value.lower()) != value.lower():
            raise InvalidArgument(
                f"redis is a URL with {name}={value}, by which any server could pass for Redis: leave it out, and name "
                "the file with the authority of its certificate (ssl_ca_certs)"
            )
    return url


def shown_redis_url(url: str) -> str:
    """The URL as it may be logged: without user, password and settings."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}{parts.path}"
