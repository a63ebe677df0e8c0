"""How many sockets may be open: at all, from one address, and of clients who have not said who they are.

Without these limits a stranger could take every socket of the server, or every one that logins need.
"""

from collections import Counter

from leveret.security.peers import origin


class Admission:
    """Counts connections."""

    def __init__(self, connections_max: int, per_address_max: int, half_open_max: int) -> None:
        """Nobody is here."""
        self._connections_max = connections_max
        self._per_address_max = per_address_max
        self._half_open_max = half_open_max
        self._by_origin: Counter[str] = Counter()
        self.connections = 0
        self.half_open = 0

    def refusal(self, host: str) -> str | None:
        """Why one more connection from an address is refused; None when it is not."""
        if self.connections >= self._connections_max:
            return f"connections_max ({self._connections_max}) is reached"
        if self.half_open >= self._half_open_max:
            return f"half_open_max ({self._half_open_max}) is reached"
        if self._by_origin[origin(host)] >= self._per_address_max:
            return f"connections_per_ip_max ({self._per_address_max}) is reached"
        return None

    def enter(self, host: str) -> None:
        """Somebody connects."""
        self._by_origin[origin(host)] += 1
        self.connections += 1
        self.half_open += 1

    def log_in(self) -> None:
        """Somebody who was counted as half open is known now."""
        self.half_open -= 1

    def leave(self, host: str, logged_in: bool) -> None:
        """Somebody is gone."""
        key = origin(host)
        self._by_origin[key] -= 1
        if not self._by_origin[key]:
            del self._by_origin[key]
        self.connections -= 1
        self.half_open -= not logged_in
