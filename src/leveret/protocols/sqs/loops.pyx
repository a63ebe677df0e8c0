"""What is done for each message of a request, compiled: ten of them come in one.

What is not as usual is not refused here: the caller hears that there is such, and goes the careful way, which says why.
"""

from base64 import b64encode

from libc.stdint cimport uint32_t, uint64_t

from leveret.core.consumer cimport Consumer
from leveret.core.held cimport LEASED, Held
from leveret.core.ids cimport id_of
from leveret.core.message cimport BLOB, Message as Content
from leveret.core.ports cimport ACKED
from leveret.core.queue cimport Queue
from leveret.embedded.message cimport Message
from leveret.runtime.receipts cimport Facts, Receipts
from leveret.protocols.sqs.parameters import ENTRY_ID_CHARS_MAX
from leveret.protocols.sqs.texts import md5_of

cdef Py_ssize_t ID_CHARS_MAX = ENTRY_ID_CHARS_MAX

cdef enum:
    FLAGS_AT = 12       # of a content header: what comes before it is its class and the size of the body


cpdef bint is_forbidden(str text) except -1:
    """Whether a text has something in it that neither a message nor an XML document may have."""
    cdef Py_UCS4 each
    for each in text:
        if each < 0x20 and each != 9 and each != 10 and each != 13:
            return True
        if each > 0xD7FF and (each < 0xE000 or each == 0xFFFE or each == 0xFFFF):
            return True
    return False


cdef bint is_id(str text) noexcept:
    """Whether a text is fit for the id of an entry: letters, digits, underscores and hyphens."""
    cdef Py_UCS4 each
    if not 0 < len(text) <= ID_CHARS_MAX:
        return False
    for each in text:
        if not (
            c"a" <= each <= c"z" or c"A" <= each <= c"Z" or c"0" <= each <= c"9" or each == c"_" or each == c"-"
        ):
            return False
    return True


def in_order(list entries not None, dict types not None) -> bool:
    """Whether entries are structures whose values have these types, with valid ids that are all different."""
    cdef set seen = set()
    for entry in entries:
        if type(entry) is not dict:
            return False
        for name, value in (<dict>entry).items():
            wanted = types.get(name)
            if wanted is not None and type(value) is not wanted and value is not None:
                return False
        name = (<dict>entry).get("Id")
        if type(name) is not str or not is_id(<str>name):
            return False
        seen.add(name)
    return len(seen) == len(entries)


def bodies(
    list entries not None, frozenset options not None, Py_ssize_t size_max, Py_ssize_t total_max
) -> list[bytes] | None:
    """The bodies of messages that are nothing else and can be sent as they are; None when one is not so."""
    cdef list found = []
    cdef Py_ssize_t size, total = 0
    cdef dict entry
    for entry in entries:
        body = entry.get("MessageBody")
        if type(body) is not str or not body or not options.isdisjoint(entry) or is_forbidden(body):
            return None
        data = (<str>body).encode()
        size = len(data)
        total += size
        if size > size_max or total > total_max:
            return None
        found.append(data)
    return found


def sent(list entries not None, list data not None, uint64_t tag, list numbers not None) -> list[dict]:
    """What the sender of plain messages is told about those that were taken."""
    cdef list told = []
    cdef uint64_t seq
    cdef Py_ssize_t i
    for i in range(len(entries)):
        seq = numbers[i]
        if seq:
            told.append({
                "Id": (<dict>entries[i])["Id"],
                "MessageId": id_of(tag, seq),
                "MD5OfMessageBody": md5_of(data[i]),
            })
    return told


def received(
    list messages not None, Receipts receipts not None, uint32_t queue, uint64_t tag, dict plain not None
) -> list[dict]:
    """What is told about every message that was taken; a body that is no text is encoded.

    `plain` are the headers, from their flags on, of messages that have no other id than that of their number.
    """
    cdef list told = []
    cdef Message message
    cdef Content content
    for message in messages:
        content = message.content
        data = message.data if content.flags & BLOB else content.content[content.header_len :]
        try:
            text = data.decode()
        except UnicodeDecodeError:
            text = None
        if text is None or is_forbidden(text):
            data = b64encode(data)
            text = data.decode()
        told.append({
            "MessageId": id_of(tag, message.seq)
            if content.content[FLAGS_AT : content.header_len] in plain else message.id,
            "ReceiptHandle": receipts.make(queue, message.seq, message.lease),
            "MD5OfBody": md5_of(data),
            "Body": text,
        })
    return told


def newest_lease(Queue queue not None, uint64_t seq) -> Held | None:
    """The newest delivery of a message by a receive; None when it is not leased, or leased by a consumer."""
    cdef Held held = None if queue.held is None else queue.held.get(seq)
    return None if held is None or held.state != LEASED or isinstance(held.consumer, Consumer) else held


def acknowledge(Queue queue not None, Receipts receipts not None, list entries not None) -> int:
    """Settle the messages of receipts up to the first that is not good or whose lease has ended; give their count."""
    cdef Facts facts
    cdef Held held
    cdef Py_ssize_t i
    for i in range(len(entries)):
        held = None
        if receipts.fault((<dict>entries[i]).get("ReceiptHandle"), &facts) is None and facts.queue == queue.id:
            held = None if queue.held is None else queue.held.get(facts.seq)
        if held is None or held.state != LEASED or held.lease != facts.lease:
            return i
        queue.counters.acked += 1
        queue.settle(held, ACKED)
    return len(entries)
