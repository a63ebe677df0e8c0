"""SendMessage and SendMessageBatch."""

from functools import partial
from typing import Any

from leveret.core.errors import LeveretError
from leveret.core.ids import format_id
from leveret.protocols.http.response import Response
from leveret.protocols.sqs import batches, texts
from leveret.protocols.sqs.call import Answer, SqsCall
from leveret.protocols.sqs.drafts import (
    MESSAGE_BYTES_MAX,
    OPTIONS,
    TRACE_ID,
    MessageDraft,
    bytes_max,
    check_fifo_batch,
    draft,
    plain_header,
    size_of_refused,
    trace_of,
)
from leveret.protocols.sqs.errors import SqsError
from leveret.protocols.sqs.loops import bodies, sent
from leveret.protocols.sqs.parameters import Parameters
from leveret.protocols.sqs.queues import SqsQueue
from leveret.protocols.sqs.received import sequence_number


def told(call: SqsCall, queue: SqsQueue, one: MessageDraft, seq: int) -> dict[str, str]:
    """What the sender of a message is told."""
    if seq == 0:
        raise _full(queue)
    return one.answer(format_id(call.account.tag, seq), sequence_number(seq) if queue.fifo else None)


def _full(queue: SqsQueue) -> SqsError:
    return SqsError("OverLimit", f"The queue {queue.name} is full.")


def check_alarm(call: SqsCall) -> None:
    """Refuse what would make a shortage worse."""
    if call.account.alarm is not None:
        raise SqsError("ServiceUnavailable", f"The server is short of {call.account.alarm}: try again later.")


def send_message(call: SqsCall, queue: SqsQueue) -> Answer:
    """Put a message into a queue."""
    check_alarm(call)
    one = draft(queue, call.parameters, call.caller.user, trace_of(call.request))
    done = _post(call, queue, [one])
    if done is None:
        return _send_large(call, queue, one)
    commit_batch, numbers = done
    return call.durable(commit_batch, told(call, queue, one, numbers[0]))


def _post(call: SqsCall, queue: SqsQueue, drafts: list[MessageDraft]) -> tuple[int, list[int]] | None:
    """Send without waiting: the commit batch to wait for, and the numbers of the messages; None when one of them is
    large.
    """
    if all(one.plain for one in drafts):
        done = queue.handle.post_bodies(plain_header(call.caller.user), [one.prepared.data for one in drafts])
        if done is not None:
            return done
    return queue.handle.post_prepared([one.prepared for one in drafts])


async def _send_large(call: SqsCall, queue: SqsQueue, one: MessageDraft) -> Response:
    numbers = await call.account.async_broker.in_thread(partial(queue.handle.send_prepared, [one.prepared]))
    return call.answer(told(call, queue, one, numbers[0]))


def send_message_batch(call: SqsCall, queue: SqsQueue) -> Answer:
    """Put up to ten messages into a queue, by one commit."""
    check_alarm(call)
    given = batches.entries(call)
    return _send_plain_batch(call, queue, given) or _send_any_batch(call, queue, given)


def _send_plain_batch(call: SqsCall, queue: SqsQueue, given: list[Parameters]) -> Answer | None:
    """The short way of small messages that are nothing but bodies; None when one of them is not."""
    special = queue.fifo or TRACE_ID in call.request.headers
    data = None if special else bodies(given, OPTIONS, bytes_max(queue), MESSAGE_BYTES_MAX)
    done = None if data is None else queue.handle.post_bodies(plain_header(call.caller.user), data)
    if data is None or done is None:
        return None
    commit_batch, numbers = done
    text = texts.sent(given, data, call.account.tag, numbers) if call.in_json else None
    if text is not None:
        return call.account.async_broker.when_durable(commit_batch, call.answer_text(text))
    refused = [batches.failed(entry, _full(queue)) for entry, seq in zip(given, numbers, strict=True) if not seq]
    return call.durable(commit_batch, batches.outcomes(sent(given, data, call.account.tag, numbers), refused))


def _send_any_batch(call: SqsCall, queue: SqsQueue, given: list[Parameters]) -> Answer:
    """The way of all others."""
    if queue.fifo:
        check_fifo_batch(queue, given)
    good: list[tuple[Parameters, MessageDraft]] = []
    refused: list[dict[str, Any]] = []
    size, traced = 0, trace_of(call.request)
    for entry in given:
        try:
            one = draft(queue, entry, call.caller.user, traced)
            good.append((entry, one))
            size += one.size_bytes
        except LeveretError as error:
            refused.append(batches.failed(entry, error))
            size += size_of_refused(entry)
    if size > MESSAGE_BYTES_MAX:
        raise SqsError("BatchRequestTooLong", most=MESSAGE_BYTES_MAX, size=size)
    done = _post(call, queue, [one for _, one in good])
    if done is None:
        return _send_large_batch(call, queue, good, refused)
    commit_batch, numbers = done
    return call.durable(commit_batch, _outcomes(call, queue, good, numbers, refused))


async def _send_large_batch(
    call: SqsCall, queue: SqsQueue, good: list[tuple[Parameters, MessageDraft]], refused: list[dict[str, Any]]
) -> Response:
    prepared = [one.prepared for _, one in good]
    numbers = await call.account.async_broker.in_thread(partial(queue.handle.send_prepared, prepared))
    return call.answer(_outcomes(call, queue, good, numbers, refused))


def _outcomes(
    call: SqsCall,
    queue: SqsQueue,
    good: list[tuple[Parameters, MessageDraft]],
    numbers: list[int],
    refused: list[dict[str, Any]],
) -> dict[str, Any]:
    """What became of each entry."""
    successful = []
    for (entry, one), seq in zip(good, numbers, strict=True):
        try:
            successful.append({"Id": entry["Id"], **told(call, queue, one, seq)})
        except SqsError as error:
            refused.append(batches.failed(entry, error))
    return batches.outcomes(successful, refused)
