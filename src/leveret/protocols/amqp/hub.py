"""What all connections share: the broker under its lock, the list of what is to be sent, and what waits for the disk.

receive -> [lock: frames, publishes, acks; pump to consumers] -> confirms wait for a commit batch of the journal
durable -> [lock: confirms and held replies of that frame] -> flush: one write for each connection
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from socket import gethostname
from typing import TYPE_CHECKING, Any, TypeVar

from leveret.core.broker import Broker
from leveret.core.errors import BrokerClosed, JournalFailed, StoreUnreachable
from leveret.core.queue import Queue
from leveret.observability.audit import Audit
from leveret.observability.logs import Log
from leveret.protocols.amqp.bodies import Bodies, tried
from leveret.protocols.amqp.description import TrafficCounts
from leveret.protocols.amqp.handshake import server_properties
from leveret.protocols.amqp.limits import AmqpLimits, Quotas
from leveret.protocols.amqp.replying import Replies
from leveret.protocols.amqp.state import Hold
from leveret.protocols.amqp.watch import beat
from leveret.runtime.durability import DurableNotifier
from leveret.runtime.runtime import Runtime
from leveret.security.access import Access
from leveret.security.authentication import AuthenticatedLogin, Authentication, Credentials
from leveret.security.logins import NO_NAME, LoginAttempt
from leveret.wire.frames import PendingOutput

if TYPE_CHECKING:
    from leveret.protocols.amqp.connection import AmqpConnection

COMPLAIN_MS = 1_000
WAITING_MAX = 10_000  # publishes that nothing is written for would else be kept without end by a disk that is stuck

T = TypeVar("T")
LOG = Log("amqp")


def _nothing() -> None:
    """What is done elsewhere when only the way back is wanted."""


Executor = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Runs a job in some thread, then calls another function with its result in the thread of the hub, without the lock."""
Decide = Callable[[str, str, int, Callable[[], Any], Callable[[Any], None]], LoginAttempt | None]
"""Decides login attempts of a host and a user, as leveret.security.logins.Logins.submit does."""


class Hub:
    """The meeting point of connections, broker and journal; used by one thread, the event loop's."""

    def __init__(
        self,
        runtime: Runtime,
        wake: Callable[[], object],
        access: Access,
        in_thread: Executor,
        limits: AmqpLimits,
        cluster_name: str = "leveret",
        authentication: Authentication | None = None,
        decide: Decide | None = None,
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        """Serve the broker of a runtime; `wake` makes the loop call `flush` soon, from whatever thread.

        Logins are decided by `decide`, or elsewhere like everything that is slow. `soon` calls a function in the next
        turn of the loop.
        """
        self.runtime = runtime
        self.core = runtime.core
        self.core.falls_back = _warn_of_strategy
        self.access = access
        self.authentication = authentication or Authentication(access)
        self.keep_password: Callable[[str, str], object] = access.change_password
        self.audit: Audit | None = None
        """Where changes by clients are noted; None: the node that the client has come to notes them."""
        self.in_thread = in_thread
        self.decide: Decide = decide or self._decide_in_thread
        self._soon = soon or (lambda job: in_thread(_nothing, lambda _: job()))
        self._changed_users: set[str | None] = set()
        access.watchers.add(self)
        self.limits = limits
        self.quotas = Quotas(self)
        self.bodies = None if runtime.large is None else Bodies(self, runtime.large)
        self.server_properties = server_properties(cluster_name)
        self.node = f"leveret@{gethostname()}"
        self.alarm: str | None = None
        self.replies = Replies()
        self.outbox = PendingOutput(wake)
        self.connections: set[AmqpConnection] = set()
        self.short_heartbeats: set[AmqpConnection] = set()
        self.traffic = TrafficCounts()
        self.opened: Counter[str] = Counter(connection=0, channel=0)
        self.waiting = DurableNotifier()
        """What is to be done when the disk is done."""
        self._slowed: list[AmqpConnection] = []
        self._resumed: list[AmqpConnection] = []
        self._complained_ms = 0

    # One turn

    def receive(self, connection: AmqpConnection, data: bytes | bytearray | memoryview) -> None:
        self.run(connection, lambda: connection.receive(data))

    def run(self, connection: AmqpConnection, action: Callable[[], None]) -> None:
        with self.locked():
            self._try(connection, action)
            self.end_turn(connection)

    def end_turn(self, connection: AmqpConnection) -> None:
        self._confirm_later(connection)
        if self.is_behind and not connection.finished:
            connection.hold(Hold.DISK)
            self._slowed.append(connection)
            self.when_durable(_nothing)

    @contextmanager
    def locked(self) -> Iterator[Broker]:
        """The broker under its lock; if a queue cannot be read when it is let go, that is no client's fault."""
        core = self.runtime.__enter__()
        try:
            yield core
        finally:
            try:
                self.runtime.__exit__()
            except JournalFailed:
                raise
            except Exception as error:
                self._complain(error, core.now_ms)

    def _complain(self, error: Exception, now_ms: int) -> None:
        """Log what may happen again in every turn, but not that often."""
        if now_ms - self._complained_ms >= COMPLAIN_MS:
            self._complained_ms = now_ms
            if isinstance(error, StoreUnreachable):
                LOG.warning("a queue waits for the store", reason=error)
            else:
                LOG.error("a queue could not be read", error)

    def _try(self, connection: AmqpConnection, action: Callable[[], None]) -> None:
        """Let a connection do something; if that fails unexpectedly, only it ends."""
        try:
            action()
        except JournalFailed:
            raise
        except Exception as error:
            LOG.error("connection broken", error, **connection.who)
            if not connection.finished:
                self._try(connection, connection.finish)

    def _confirm_later(self, connection: AmqpConnection) -> None:
        """Confirm the new publishes of a connection when they are durable."""
        channels = connection.take_unconfirmed()
        if channels:

            def confirm() -> None:
                for channel, through in channels:
                    channel.confirm(through)

            self.when_durable(confirm)

    def when_durable(self, action: Callable[[], None], *, lazily: bool = False) -> None:
        """Do something when all that was done until now is on the disk; under the lock of the runtime.

        `lazily`: that is in no hurry, so nothing is written earlier than it would be anyway.
        """
        frame = self.runtime.commit()
        if frame <= self.runtime.durable_batch and not self.waiting.count:  # else it would be done before those
            action()
            return
        self.waiting.add(frame, lambda error: action())
        if not lazily:
            self.runtime.kick()

    def durable(self, frame: int) -> None:
        """A commit batch of the journal is on the disk, and all before it."""
        # A broker that was closed meanwhile, or lost to another owner, has no client to tell.
        with suppress(BrokerClosed, JournalFailed), self.locked():
            self.waiting.notify(frame)
            slowed, self._slowed = self._slowed, []
            if slowed and self.is_behind:
                self._slowed = slowed
                self.when_durable(_nothing)
                slowed = []
            for connection in slowed:
                connection.let_go(Hold.DISK)
        self.resume()

    @property
    def is_behind(self) -> bool:
        """Whether so much waits for the disk that connections have to wait, too."""
        return self.runtime.behind or self.waiting.count >= WAITING_MAX

    def answer_when_durable(self, connection: AmqpConnection, answer: Callable[[], None]) -> None:
        """Answer when all that was done until now is on the disk; the connection is not read until then."""
        answered = False

        def finish() -> None:
            nonlocal answered
            answered = True
            connection.let_go(Hold.ANSWER)
            answer()

        self.when_durable(finish)
        if not answered:
            connection.hold(Hold.ANSWER)

    def resume(self) -> None:
        """Go on with what connections had sent while they were not read."""
        while self._resumed:
            connection = self._resumed.pop()
            self.run(connection, connection.drain)

    def resumed(self, connection: AmqpConnection) -> None:
        self._resumed.append(connection)

    def flush(self) -> None:
        """Write what there is to be sent, once for each connection; not under the lock of the runtime.

        One round only: a consumer that reads as fast as we write must not keep the loop from all the others.
        """
        connections = self.outbox.take()
        for connection in connections:
            self._write(connection)
        self.feed_consumers(connections)
        self.resume()

    def _write(self, connection: AmqpConnection) -> None:
        """Let a connection write; one that cannot does not keep the others from it."""
        try:
            connection.flush()
        except JournalFailed:
            raise
        except Exception as error:
            LOG.error("connection broken", error, **connection.who)
            connection.abort()

    def feed_consumers(self, connections: list[AmqpConnection]) -> None:
        """Push to those whose output was full and is not any more."""
        starved = [each for each in connections if each.outlet.starved and not each.outlet.paused]
        if starved:
            with self.locked():
                for connection in starved:
                    connection.outlet.starved = False
                    for channel in connection.channels.values():
                        channel.resume()

    # Slow things

    def login(self, connection: AmqpConnection, credentials: Credentials) -> None:
        self._authenticate(connection, credentials, connection.logged_in)

    def renew(self, connection: AmqpConnection, token: bytes) -> None:
        self._authenticate(connection, Credentials(None, token), connection.renewed)

    def _authenticate(
        self, connection: AmqpConnection, credentials: Credentials, then: Callable[[AuthenticatedLogin], None]
    ) -> None:
        """Decide credentials: at once if they were verified lately, else in line for a thread."""
        now_ms, host = self.core.now_ms, connection.peer.host
        known = self.authentication.recall(credentials, host, now_ms)
        if known is not None:
            then(AuthenticatedLogin(known))
            return

        def decide() -> AuthenticatedLogin:
            return self.authentication.authenticate(credentials, host, now_ms)

        def finish(login: AuthenticatedLogin | Exception) -> None:
            if isinstance(login, Exception):
                LOG.error("login could not be decided", login, **connection.who)
                login = AuthenticatedLogin(None, "it could not be decided")
            self._strengthen(login)
            then(login)

        def done(login: AuthenticatedLogin | Exception) -> None:
            connection.attempt = None  # it refers to the connection by this function
            if not isinstance(login, Exception):
                self.note_login(connection, credentials.name, login)
            if not connection.finished:
                self.finish(connection, partial(finish, login))

        connection.hold(Hold.LOGIN)
        connection.attempt = self.decide(host, credentials.name or NO_NAME, now_ms, decide, done)

    def note_login(self, connection: AmqpConnection, name: str | None, login: AuthenticatedLogin) -> None:
        """Note a login that was refused, also when the client has disconnected."""
        if login.identity is None and self.audit is not None:
            self.audit.login_failed("AMQP", name, connection.peer.host, login.reason)

    def _decide_in_thread(
        self, host: str, name: str, now_ms: int, decide: Callable[[], T], done: Callable[[T | Exception], None]
    ) -> None:
        self.in_thread(partial(tried, decide), done)

    def _strengthen(self, login: AuthenticatedLogin) -> None:
        """Store the better hash of a password, unless the password was changed while this login was decided."""
        if login.stronger is not None:
            user, stronger = login.stronger
            if user.name in self.access.users and self.access.users.get(user.name).password_hash == user.password_hash:
                self.keep_password(user.name, stronger)

    def attempt(self, connection: AmqpConnection, job: Callable[[], T], done: Callable[[T | Exception], None]) -> None:
        """Do something slow for a connection elsewhere, then `done` with what came of it, under the lock of the
        runtime.
        """
        self.in_thread(partial(tried, job), lambda result: self.finish(connection, lambda: done(result)))

    def finish(self, connection: AmqpConnection, action: Callable[[], None]) -> None:
        self.run(connection, action)
        self.resume()

    # Rights

    def access_changed(self, user: str | None) -> None:
        """See Watcher: consumers and connections that are not allowed any more end in the next turn of the loop."""
        self._changed_users.add(user)
        if len(self._changed_users) == 1:
            self._soon(self._check_access)

    def _check_access(self) -> None:
        """End what the users whose rights have changed may not go on with."""
        users, self._changed_users = self._changed_users, set()
        # A broker that was closed meanwhile, or lost to another owner, has no clients.
        with suppress(BrokerClosed, JournalFailed), self.locked():
            for connection in list(self.connections):
                if None in users or connection.user_name in users:
                    self._try(connection, connection.check_access)
        self.resume()

    # Alarms and time

    def set_alarm(self, reason: str | None) -> None:
        """Take no more publishes, or take them again."""
        self.alarm = reason
        with self.locked():
            for connection in self.connections:
                connection.set_alarm(reason)
        self.resume()

    def sweep(self) -> None:
        """What time asks for, about once a second."""
        with self.locked() as core:
            for connection in list(self.connections):
                self._try(connection, partial(connection.check, core.now_ms))
            now_ms = core.now_ms
        if self.bodies is not None:
            self.bodies.retry(now_ms)
        self.resume()

    def beat(self) -> None:
        """Between two sweeps: send heartbeats to clients that want them more often than once a second."""
        if self.short_heartbeats:
            with self.locked() as core:
                for connection in list(self.short_heartbeats):
                    self._try(connection, partial(beat, connection, core.now_ms))

    def ask_close(self, code: int, text: str) -> None:
        """Ask every client to go."""
        with self.locked():
            for connection in list(self.connections):
                self._try(connection, partial(connection.ask_close, code, text))
        self.resume()

    def lost(self, connection: AmqpConnection) -> None:
        self.run(connection, connection.lost)


def _warn_of_strategy(queue: Queue) -> None:
    """A queue asks for at-least-once dead-lettering and cannot have it."""
    LOG.warning(
        "falling back to dead-letter-strategy at-most-once",
        vhost=queue.vhost,
        queue=queue.name,
        reason=f"at-least-once is incompatible with overflow strategy {queue.policy.overflow}: set reject-publish",
    )
