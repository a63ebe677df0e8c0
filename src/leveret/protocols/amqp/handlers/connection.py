"""Channel 0: which methods a connection takes in which state. What is not in the table is out of order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from leveret.core.errors import AccessRefused
from leveret.observability.logs import Log
from leveret.operations.registry import OPERATIONS
from leveret.protocols.amqp.handshake import CERTIFICATE_MECHANISM, mechanisms, parse_response
from leveret.protocols.amqp.state import ConnectionState
from leveret.protocols.amqp.watch import SHORT_HEARTBEAT_MS
from leveret.security.authentication import SECRET_IN_CLEAR, AuthenticatedLogin
from leveret.security.authorisation import admit
from leveret.security.peers import is_loopback
from leveret.wire import methods
from leveret.wire.replies import ProtocolError, Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.connection import AmqpConnection, AmqpPeer

UPDATE_IDS = (10, 70)

LOG = Log("amqp")


def handle(connection: AmqpConnection, method: methods.Method) -> None:
    """Do what a method on channel 0 asks for."""
    handler = HANDLERS.get((connection.state, type(method)))
    if handler is not None:
        handler(connection, method)
    elif connection.state is not ConnectionState.CLOSING:
        raise ProtocolError(Reply.CHANNEL_ERROR, f"unexpected method in connection state {connection.state.value}")


def start_ok(connection: AmqpConnection, method: methods.ConnectionStartOk) -> None:
    """Hand the credentials to who can decide; until then nothing more is read."""
    connection.client_properties = method.client_properties
    capabilities = method.client_properties.get("capabilities")
    connection.client_capabilities = capabilities if isinstance(capabilities, dict) else {}
    if method.mechanism not in mechanisms(connection.peer.certificate_name is not None):
        raise ProtocolError(Reply.COMMAND_INVALID, f"unknown authentication mechanism '{method.mechanism}'")
    credentials = parse_response(method.mechanism, method.response)
    connection.mechanism = method.mechanism
    connection.state = ConnectionState.AUTHENTICATING
    if method.mechanism == CERTIFICATE_MECHANISM:
        name = connection.peer.certificate_name or ""
        login = connection.hub.authentication.certified(name, connection.peer.host)
        connection.hub.note_login(connection, name, login)
        logged_in(connection, login)
    elif _in_clear(connection.peer) and not connection.hub.limits.passwords_in_clear:
        login = AuthenticatedLogin(None, SECRET_IN_CLEAR)
        connection.hub.note_login(connection, credentials.name, login)
        logged_in(connection, login)
    else:
        connection.hub.login(connection, credentials)


def _in_clear(peer: AmqpPeer) -> bool:
    """Whether others could read along."""
    return not peer.tls and not is_loopback(peer.host)


def logged_in(connection: AmqpConnection, login: AuthenticatedLogin) -> None:
    """Go on after a login was decided."""
    if login.identity is None:
        LOG.warning("login refused", **connection.who, mechanism=connection.mechanism, reason=login.reason)
        connection.refuse_login(login)
    else:
        connection.identity = login.identity
        limits = connection.hub.limits
        connection.say(methods.ConnectionTune(limits.channel_max, limits.frame_max, limits.heartbeat_s))
        connection.state = ConnectionState.TUNING


def tune_ok(connection: AmqpConnection, method: methods.ConnectionTuneOk) -> None:
    """Take what the client answered."""
    connection.reader.tune(method.frame_max, method.channel_max)
    connection.outlet.tune(method.frame_max)
    connection.heartbeat_ms = 1000 * method.heartbeat
    if 0 < connection.heartbeat_ms < SHORT_HEARTBEAT_MS:
        connection.hub.short_heartbeats.add(connection)
    connection.state = ConnectionState.OPENING


def open_vhost(connection: AmqpConnection, method: methods.ConnectionOpen) -> None:
    """Enter a virtual host."""
    identity = connection.identity
    assert identity is not None, "the client has logged in"
    hub, name = connection.hub, method.virtual_host
    hub.core.topology.vhost(name)
    try:
        admit(hub.access.permissions, identity, OPERATIONS["connection.open"].rule, name)
    except AccessRefused as error:
        raise ProtocolError(Reply.NOT_ALLOWED, str(error)) from None
    hub.quotas.check_connection(identity.user, name)
    connection.enter(name)
    connection.say(methods.ConnectionOpenOk())


def update_secret(connection: AmqpConnection, method: methods.ConnectionUpdateSecret) -> None:
    """Take another token of the same user; a password does not expire, so there is nothing to renew or to check."""
    identity = connection.identity
    assert identity is not None, "a running connection has logged in"
    if identity.expires_ms is None:
        connection.say(methods.ConnectionUpdateSecretOk())
    else:
        connection.hub.renew(connection, method.new_secret)


def renewed(connection: AmqpConnection, login: AuthenticatedLogin) -> None:
    """Go on after a new token was verified: it has to be one of the same user, for the same virtual host."""
    before, after = connection.identity, login.identity
    assert before is not None, "a running connection has logged in"
    if connection.state is not ConnectionState.RUNNING:
        return
    if after is None or (after.user, after.local) != (before.user, before.local):
        reason = login.reason if after is None else f"it is one of user '{after.user}'"
        LOG.warning("token refused", **connection.who, user=before.user, reason=reason)
        connection.fail(ProtocolError(Reply.NOT_ALLOWED, "New secret was refused by one of the backends"), *UPDATE_IDS)
        return
    try:
        admit(connection.hub.access.permissions, after, OPERATIONS["connection.open"].rule, connection.vhost)
    except AccessRefused as error:
        connection.fail(ProtocolError(Reply.NOT_ALLOWED, str(error)), *UPDATE_IDS)
        return
    connection.renew(after)
    connection.say(methods.ConnectionUpdateSecretOk())


def close(connection: AmqpConnection, method: methods.ConnectionClose) -> None:
    """The client goes: what it had is given back before it is told so."""
    connection.release()
    connection.say(methods.ConnectionCloseOk())
    connection.client_closes = True
    connection.finish()


def close_ok(connection: AmqpConnection, method: methods.ConnectionCloseOk) -> None:
    """The client has understood that it is closed."""
    connection.finish()


Handler = Callable[["AmqpConnection", Any], None]
HANDLERS: dict[tuple[ConnectionState, type[methods.Method]], Handler] = {
    (ConnectionState.STARTING, methods.ConnectionStartOk): start_ok,
    (ConnectionState.TUNING, methods.ConnectionTuneOk): tune_ok,
    (ConnectionState.OPENING, methods.ConnectionOpen): open_vhost,
    (ConnectionState.RUNNING, methods.ConnectionUpdateSecret): update_secret,
    **{
        (state, methods.ConnectionClose): close
        for state in (ConnectionState.TUNING, ConnectionState.OPENING, ConnectionState.RUNNING, ConnectionState.CLOSING)
    },
    (ConnectionState.CLOSING, methods.ConnectionCloseOk): close_ok,
}
