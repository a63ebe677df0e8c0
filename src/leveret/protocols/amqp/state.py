"""How far a connection has come, and why it may not be heard for a while."""

from enum import Enum


class ConnectionState(Enum):
    """The states in their order; the values are what errors call them."""

    HEADER = "pre_init"
    STARTING = "starting"
    AUTHENTICATING = "securing"
    TUNING = "tuning"
    OPENING = "opening"
    RUNNING = "running"
    CLOSING = "closing"
    CLOSED = "closed"


UNKNOWN = frozenset(
    (ConnectionState.HEADER, ConnectionState.STARTING, ConnectionState.AUTHENTICATING)
)  # before the login
HANDSHAKE = UNKNOWN | {ConnectionState.TUNING, ConnectionState.OPENING}


class Hold(Enum):
    """Why nothing is read from a connection."""

    LOGIN = "a password is being looked at"
    ANSWER = "an answer waits for the disk"
    BODY = "a large body is being stored"
    DISK = "the disk is behind"
    OUTPUT = "the client does not read what it asked for"
    ALARM = "memory or disk is short, and the client publishes"
    SHARD = "another part of the cluster is waited for"
    DEFINITIONS = "the definitions of the cluster may have changed"
