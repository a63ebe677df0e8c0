"""Where a login comes from: whether that is this machine, and whom to blame for a wrong password."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_IPV6_PREFIX_BITS = 64  # one customer has a whole /64: counting single addresses would count nothing


_PROXIED = " through a proxy"


def through_proxy(peer: str) -> str:
    """The address of a proxy that stands for a client which is somewhere else: never loopback."""
    return peer + _PROXIED


@lru_cache(maxsize=10_000)  # it is asked for each request of HTTP, and reading an address takes longer than the rest
def is_loopback(peer: str) -> bool:
    """Whether the address is of this machine; what is not an address is not."""
    address = address_of(peer)
    return address is not None and address.is_loopback


def origin(peer: str) -> str:
    """The address under which failures are counted."""
    address = address_of(peer.removesuffix(_PROXIED))
    if isinstance(address, IPv6Address):
        return str(IPv6Network((int(address), _IPV6_PREFIX_BITS), strict=False))
    return "" if address is None else str(address)


def address_of(peer: str) -> IPv4Address | IPv6Address | None:
    """The address, with IPv4 in IPv6 taken out of its wrapping."""
    try:
        address = ip_address(peer)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
