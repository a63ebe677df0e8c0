"""What is done for each message of a request, compiled: ten of them come in one.

What is not as usual is not refused here: the caller learns that there is such, and goes the careful way, which says why.

Results in JSON are written straight into their bytes, for messages that are as most are:

    {"Successful":[{"Id":"..","MessageId":"..","MD5OfMessageBody":".."},..]}
    {"Messages":[{"MessageId":"..","ReceiptHandle":"..","MD5OfBody":"..","Body":".."},..]}

For others the caller gets None, and goes the way of dictionaries, which both protocols have.
"""

from base64 import b64encode

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from cpython.unicode cimport PyUnicode_1BYTE_DATA
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memcpy

from leveret.core.consumer cimport Consumer
from leveret.core.held cimport LEASED, Held
from leveret.core.ids cimport id_of
from leveret.core.message cimport BLOB, Message as Content
from leveret.core.ports cimport ACKED
from leveret.core.queue cimport Queue
from leveret.runtime.message cimport Message
from leveret.runtime.receipts cimport Facts, Receipts
from leveret.protocols.sqs.wire import ENTRY_ID_CHARS_MAX

cdef extern from "md5.h" nogil:
    void md5_hex(const unsigned char* data, size_t size, char* out)

cdef Py_ssize_t ID_CHARS_MAX = ENTRY_ID_CHARS_MAX

cdef enum:
    FLAGS_AT = 12       # of a content header: what comes before it is its class and the size of the body
    DIGEST_CHARS = 32
    ID_CHARS = 36
    NOT_PLAIN = -1

cdef bytes SENT_HEAD = b'{"Successful":[', RECEIVED_HEAD = b'{"Messages":[', END = b"]}"
cdef bytes ID = b'{"Id":"', THEN_ID = b'","MessageId":"', THEN_SENT_MD5 = b'","MD5OfMessageBody":"', CLOSE = b'"}'
cdef bytes MESSAGE_ID = b'{"MessageId":"', THEN_HANDLE = b'","ReceiptHandle":"', THEN_MD5 = b'","MD5OfBody":"'
cdef bytes THEN_BODY = b'","Body":"'


def md5_of(bytes data not None) -> str:
    """The checksum of a body."""
    cdef char digest[DIGEST_CHARS]
    md5_hex(data, len(data), digest)
    return digest[:DIGEST_CHARS].decode()


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


def in_order(list entries not None, types: dict[str, type]) -> bool:
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
    entries: list[dict[str, Any]], options: frozenset[str], Py_ssize_t size_max, Py_ssize_t total_max
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


def sent(entries: list[dict[str, Any]], data: list[bytes], uint64_t tag, numbers: list[int]) -> list[dict[str, str]]:
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
    messages: list[Message], Receipts receipts not None, uint32_t queue, uint64_t tag, plain: dict[bytes, str | None]
) -> list[dict[str, Any]]:
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


def acknowledge(Queue queue not None, Receipts receipts not None, entries: list[dict[str, Any]]) -> int:
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


# Results as text


cdef char* put(char* out, bytes text) noexcept:
    """Copy bytes; give the place behind them."""
    memcpy(out, PyBytes_AS_STRING(text), len(text))
    return out + len(text)


cdef char* put_text(char* out, str text) noexcept:
    """The same for text of ASCII characters."""
    memcpy(out, <char*>PyUnicode_1BYTE_DATA(text), len(text))
    return out + len(text)


cdef Py_ssize_t escapes(const unsigned char* data, Py_ssize_t size) noexcept:
    """How many characters of a text have a backslash before them in JSON; -1 when it is not all plain ASCII."""
    cdef Py_ssize_t i
    cdef uint32_t count = 0, others = 0     # without a way out of the loop, so that it is done for many bytes at once
    cdef unsigned char each
    for i in range(size):
        each = data[i]
        others += (each < 0x20) & (each != c"\t") & (each != c"\n") & (each != c"\r") | (each > 0x7E)
        count += (each < 0x20) | (each == c'"') | (each == c"\\")
    return NOT_PLAIN if others else <Py_ssize_t>count


cdef char* put_escaped(char* out, const unsigned char* data, Py_ssize_t size) noexcept:
    """Copy text as a string of JSON has it."""
    cdef Py_ssize_t i
    cdef unsigned char each
    for i in range(size):
        each = data[i]
        if each < 0x20 or each == c'"' or each == c"\\":
            out[0] = c"\\"
            out += 1
            each = c"t" if each == c"\t" else c"n" if each == c"\n" else c"r" if each == c"\r" else each
        out[0] = <char>each
        out += 1
    return out


cdef char* put_md5(char* out, const unsigned char* data, Py_ssize_t size) noexcept:
    """The checksum of a body."""
    md5_hex(data, size, out)
    return out + DIGEST_CHARS


def sent_json(entries: list[dict[str, Any]], data: list[bytes], uint64_t tag, numbers: list[int]) -> bytes | None:
    """The result of a batch of plain messages, whose ids need no escapes; None when the queue took not all of them."""
    cdef Py_ssize_t i, size = len(SENT_HEAD) + len(END)
    cdef uint64_t seq
    cdef dict entry
    for i in range(len(entries)):
        entry = entries[i]
        if not numbers[i]:
            return None
        size += len(ID) + len(<str>entry["Id"]) + len(THEN_ID) + ID_CHARS + len(THEN_SENT_MD5) + DIGEST_CHARS
        size += len(CLOSE) + (i > 0)
    cdef bytes text = PyBytes_FromStringAndSize(NULL, size)
    cdef char* out = put(PyBytes_AS_STRING(text), SENT_HEAD)
    for i in range(len(entries)):
        if i:
            out[0] = c","
            out += 1
        seq = numbers[i]
        out = put_text(put(out, ID), <str>(<dict>entries[i])["Id"])
        out = put_text(put(out, THEN_ID), id_of(tag, seq))
        out = put_md5(put(out, THEN_SENT_MD5), <bytes>data[i], len(<bytes>data[i]))
        out = put(out, CLOSE)
    out = put(out, END)
    assert out == PyBytes_AS_STRING(text) + size
    return text


def received_json(
    messages: list[Message], Receipts receipts not None, uint32_t queue, uint64_t tag, plain: dict[bytes, str | None]
) -> bytes | None:
    """The result of a receive; None when a body is not ASCII or not at hand, or a message has an id of its own.

    `plain` are the headers, from their flags on, of messages that have no other id than that of their number.
    """
    cdef Py_ssize_t i, size = len(RECEIVED_HEAD) + len(END), body_bytes, escaped
    cdef const unsigned char* body
    cdef list handles = [], escapes_of = []
    cdef Message message
    cdef Content content
    cdef str handle
    for message in messages:
        content = message.content
        if content.flags & BLOB or content.content[FLAGS_AT : content.header_len] not in plain:
            return None
        body_bytes = len(content.content) - content.header_len
        escaped = escapes(<const unsigned char*>PyBytes_AS_STRING(content.content) + content.header_len, body_bytes)
        if escaped < 0:
            return None
        handle = receipts.make(queue, message.seq, message.lease)
        handles.append(handle)
        escapes_of.append(escaped)
        size += len(MESSAGE_ID) + ID_CHARS + len(THEN_HANDLE) + len(handle) + len(THEN_MD5) + DIGEST_CHARS
        size += len(THEN_BODY) + body_bytes + escaped + len(CLOSE) + (len(handles) > 1)
    cdef bytes text = PyBytes_FromStringAndSize(NULL, size)
    cdef char* out = put(PyBytes_AS_STRING(text), RECEIVED_HEAD)
    for i in range(len(messages)):
        if i:
            out[0] = c","
            out += 1
        message = messages[i]
        content = message.content
        body = <const unsigned char*>PyBytes_AS_STRING(content.content) + content.header_len
        body_bytes = len(content.content) - content.header_len
        out = put_text(put(out, MESSAGE_ID), id_of(tag, message.seq))
        out = put_text(put(out, THEN_HANDLE), <str>handles[i])
        out = put_md5(put(out, THEN_MD5), body, body_bytes)
        out = put(out, THEN_BODY)
        if escapes_of[i]:
            out = put_escaped(out, body, body_bytes)
        else:
            memcpy(out, body, body_bytes)
            out += body_bytes
        out = put(out, CLOSE)
    out = put(out, END)
    assert out == PyBytes_AS_STRING(text) + size
    return text


def deleted_json(entries: list[dict[str, Any]]) -> bytes:
    """The result of a batch that all went well, whose ids need no escapes."""
    return b"".join((SENT_HEAD, ",".join([f'{{"Id":"{entry["Id"]}"}}' for entry in entries]).encode(), END))
