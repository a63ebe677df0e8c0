"""A publish that is not plain: it asks for something (mandatory, copies, a delay, de-duplication, a direct reply), or
is to be refused. The order of the checks is RabbitMQ's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from leveret.core.arguments import sent_delay_ms
from leveret.core.deadletter import all_keys, without_client_deaths
from leveret.core.dedup import DEDUP_HEADER, content_id, digest
from leveret.core.errors import InvalidArgument, MessageTooLarge, PreconditionFailed
from leveret.core.filters import GROUP_HEADER
from leveret.core.ports import RETURNED, TOO_LARGE, UNROUTABLE
from leveret.core.properties import ABSENT, INVALID, content, decode_header, scan_header
from leveret.core.publish import group_key, route_of
from leveret.core.queue import Queue
from leveret.protocols.amqp.firehose import trace_publish
from leveret.protocols.amqp.names import REPLY_TO
from leveret.security.authorisation import check_user_id
from leveret.wire.methods import BasicReturn
from leveret.wire.replies import Reply

if TYPE_CHECKING:
    from leveret.protocols.amqp.channel import Channel
    from leveret.runtime.large_bodies import LargeBodies

DELAY_HEADER = "x-delay"
PERSISTENT = 2
NAME_CHARS_MAX = 1024  # of groups and de-duplication ids: they travel in the header of every message


class Publish:
    """One message: checked and routed when it came, sent now or at the end of a transaction."""

    def __init__(
        self, channel: Channel, exchange: str, routing_key: str, mandatory: bool, wire: bytes, header_len: int
    ) -> None:
        self._channel = channel
        self._now_ms = channel.core.now_ms
        self.exchange = exchange
        self.routing_key = routing_key
        self.mandatory = mandatory
        self.content = wire
        self._header_len = header_len
        channel.authorize("basic.publish", {"exchange": exchange})
        self._delays = channel.check_exchange(exchange).delays
        self._priority, self._mode, self._expiration_ms, _ = scan_header(wire, header_len)
        sent = decode_header(wire[:header_len])
        self._properties = without_client_deaths(sent)
        self._is_changed = self._properties is not sent
        self._headers: dict[str, Any] = self._properties.headers or {}
        self._direct_reply()
        self._check_expiration()
        keys = all_keys(self._properties, routing_key) if self._headers else [routing_key]
        for key in keys:
            channel.authorize("basic.publish", {"exchange": exchange}, channel.topic_key(exchange, key))
        self._check_user()
        self._options = self._read_options()
        self._delay_ms = self._read_delay_ms()
        self._queues: list[Queue] = channel.virtual_host.route(exchange, keys, self._headers, self._properties)
        self._key = self._dedup_key()
        self._blob = False
        self.check_sizes()

    def _direct_reply(self) -> None:
        """Put the name of the reply consumer in the place of the word that stands for it."""
        if self._properties.reply_to == REPLY_TO:
            consumer = self._channel.reply_consumer
            if consumer is None:
                raise PreconditionFailed("fast reply consumer does not exist")
            self._properties.reply_to = consumer.name
            self._is_changed = True

    def _check_expiration(self) -> None:
        if self._expiration_ms == INVALID:
            text = self._properties.expiration or ""
            raise PreconditionFailed(f"invalid expiration '{text}': {_why_no_time(text)}")

    def _check_user(self) -> None:
        """Refuse a message that names another user as its publisher."""
        who = self._channel.connection.identity
        assert who is not None, "the client has logged in"
        check_user_id(who, self._properties.user_id)

    def _read_options(self) -> dict[str, Any]:
        """What the core is told beside the bytes, but for times."""
        group = _name(self._headers, GROUP_HEADER)
        return {
            "priority": self._priority,
            "persistent": self._mode == PERSISTENT,
            "group": 0 if group is None else group_key(group),
        }

    def _read_delay_ms(self) -> int | None:
        """How long an exchange that delays is to hold it back; None: it is not asked to."""
        return sent_delay_ms(self._headers[DELAY_HEADER]) if self._delays and DELAY_HEADER in self._headers else None

    def trace(self) -> None:
        body = self.content[self._header_len :]
        trace_publish(self._channel, self.exchange, self.routing_key, self._properties, body, self._queues)

    # Large bodies

    @property
    def is_large(self) -> bool:
        """Whether the body is to be kept outside of the log."""
        size_bytes = len(self.content) - self._header_len
        if self._channel.hub.bodies is None or size_bytes <= self._channel.hub.limits.blob_bytes:
            return False
        return any(queue.recorder is None for queue in self._queues)  # streams keep bodies of every size

    def check_sizes(self) -> None:
        """Refuse what is too large for one of its queues: at once, not in the middle of a commit."""
        check_sizes(self._queues, len(self.content) - self._header_len)

    def store(self) -> bytes:
        # Not a slice: copying it would hold the lock of Python for as long, and with it the loop.
        return self._store.put(memoryview(self.content)[self._header_len :], self._now_ms)

    def put_away(self, pointer: bytes) -> None:
        """Go on with a pointer instead of the body."""
        self.content = self.content[: self._header_len] + pointer
        self._blob = True

    def drop(self) -> None:
        """It is not going to be sent, or no queue has taken it: its body is not needed."""
        if self._blob:
            self._store.drop_unused(self.content[self._header_len :])

    @property
    def _store(self) -> LargeBodies:
        bodies = self._channel.hub.bodies
        assert bodies is not None, "only then is a body large"
        return bodies.store

    # Sending

    def send(self, number: int) -> None:
        """Hand it to the queues; `number` is that of its confirm, 0: none."""
        if self._sent_as_reply():
            return
        queues = [queue for queue in self._queues if not queue.deleted]
        if not queues:
            self.drop()
            returns = self.mandatory and not self._blob  # the body of that one has just gone
            size = len(self.content) - self._header_len
            self._channel.core.engine.refused(RETURNED if returns else UNROUTABLE, size, self.exchange)
            if returns:
                self._return()
            else:
                self._channel.dropped += 1
            return
        wire, header_len = self._wire()
        route = route_of(self.exchange, self.routing_key)
        try:
            seq = self._channel.core.publish(
                queues, route, wire, header_len, **self._options, **self._times(), key=self._key, blob=self._blob
            )
        finally:
            self.drop()
        if seq == 0 and number:
            self._channel.refused.append(number)

    def _sent_as_reply(self) -> bool:
        """Whether it was a reply to a channel that waits for one."""
        if self.exchange or not self.routing_key.startswith(REPLY_TO):
            return False
        taker = self._channel.hub.replies.find(self.routing_key)
        if taker is None:
            return False
        taker.deliver(self.exchange, self.routing_key, *self._wire())
        return True

    def _return(self) -> None:
        method = BasicReturn(Reply.NO_ROUTE, Reply.NO_ROUTE.name, self.exchange, self.routing_key)
        self._channel.say_content(method, *self._wire())
        self._channel.returned += 1

    def _wire(self) -> tuple[bytes, int]:
        """Properties and body as the queues get them: without BCC, else as they came if that is possible."""
        if "BCC" in self._headers:
            kept = {name: value for name, value in self._headers.items() if name != "BCC"}
            self._properties.headers = kept or None
        elif not self._is_changed and not self._blob:
            return self.content, self._header_len
        return content(self._properties, self.content[self._header_len :])

    def _times(self) -> dict[str, Any]:
        now_ms = self._channel.core.now_ms
        lives = self._expiration_ms != ABSENT
        return {
            "due_ms": 0 if self._delay_ms is None else now_ms + self._delay_ms,
            "expiry_ms": now_ms + max(1, self._expiration_ms) if lives else 0,
        }

    def _dedup_key(self) -> bytes | None:
        """The de-duplication key, if there is one; the policy of a single queue says how it de-duplicates."""
        policy = self._queues[0].policy if len(self._queues) == 1 else None
        scope = _name(self._headers, GROUP_HEADER) if policy is not None and policy.dedup_scope == "group" else None
        given = _name(self._headers, DEDUP_HEADER)
        if given is not None:
            return digest(given, scope)
        if policy is not None and policy.content_dedup:
            return digest(content_id(self.content[self._header_len :]), scope)
        return None


def check_sizes(queues: list[Queue], size_bytes: int) -> None:
    """Refuse a body that is too large for one of some queues."""
    for queue in queues:
        most = queue.policy.max_message_bytes
        if most is not None and size_bytes > most:
            queue.engine.refused(TOO_LARGE, size_bytes, None, queue.id)
            raise MessageTooLarge(
                f"message size {size_bytes} is larger than configured max size {most} of queue '{queue.name}'"
            )


def _name(headers: dict[str, Any], header: str) -> str | None:
    value = headers.get(header)
    if value is not None and (not isinstance(value, str) or not 0 < len(value) <= NAME_CHARS_MAX):
        raise InvalidArgument(f"the header {header} is a string of 1 to {NAME_CHARS_MAX} characters")
    return value


def _why_no_time(text: str) -> str:
    """What is wrong with an expiration, in RabbitMQ's words."""
    digits = text[1:] if text[:1] in ("-", "+") else text
    leading = digits[: next((i for i, each in enumerate(digits) if each not in "0123456789"), len(digits))]
    if not leading:
        return "no_integer"
    if leading != digits:
        return f'{{leftover_string,"{digits[len(leading) :]}"}}'
    return f"{{value_negative,{text}}}" if text[0] == "-" else f"{{value_too_large,{text}}}"
