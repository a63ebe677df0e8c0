"""Telling systemd how the server is: datagrams to the socket that it names in the environment."""

import os
import socket
from collections.abc import Mapping

MICROSECONDS = 1_000_000
TELL_S = 10.0  # for a supervisor with much to read: it would wait in vain for what it is told once


class Supervisor:
    """The supervisor that started the server and wants to know its state; mostly there is none."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        own = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        microseconds = environ.get("WATCHDOG_USEC", "") if own else ""
        self.watchdog_s = int(microseconds) / MICROSECONDS / 2 if microseconds.isdecimal() else 0.0
        """How often `alive` has to be called, with a margin; 0: never."""

    def ready(self) -> None:
        """Clients are served from now on."""
        self._tell("READY=1", TELL_S)

    def alive(self) -> None:
        """The loop still turns."""
        if self.watchdog_s:
            self._tell("WATCHDOG=1", 0.0)  # it comes again: the loop need not wait

    def stopping(self) -> None:
        """Clients are being sent away."""
        self._tell("STOPPING=1", TELL_S)

    def _tell(self, state: str, wait_s: float) -> None:
        """Send a datagram; wait so long for room for it."""
        if not self._address:
            return
        # A name that begins with @ is not a file.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(wait_s)
            try:
                sender.connect(address)  # or no wake-up would come when there is room
                sender.send(state.encode())
            except OSError:
                return  # the supervisor does not listen any more, or read: no reason to stop
