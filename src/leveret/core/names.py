"""Names of exchanges, queues and virtual hosts: how long, which are reserved, how errors spell them."""

from leveret.core.errors import AccessRefused, InvalidArgument

NAME_BYTES_MAX = 255  # an AMQP short string; a longer name could not be told to any client
PROCESSED_SUFFIX = ".processed"  # of the queue that remembers what workers of another one have done
RESERVED_PREFIX = "amq."
INTERNAL_VHOST = "amq.leveret"  # where a shard keeps what is for others: no client can name it, and no list has it
CONSUMER_NAME_CHARS_MAX = 128  # names of consumers are kept for ever, and clients choose them


def described(kind: str, name: str, vhost: str) -> str:
    """The thing as errors call it: queue 'q' in vhost '/'."""
    return f"{kind} '{name}' in vhost '{vhost}'"


def consumer_name(user: str, given: object) -> str:
    """How the journal knows who takes messages: by user, and by the name that a client gives itself, if it does."""
    name = f"{user}/{given}" if isinstance(given, str) and given else user
    return name[:CONSUMER_NAME_CHARS_MAX]


def companion_of(name: str) -> str | None:
    """The queue whose workers remember in a queue of this name what they have done; None: it is no such memory."""
    return name.removesuffix(PROCESSED_SUFFIX) if name.endswith(PROCESSED_SUFFIX) else None


def check_name(kind: str, name: str) -> None:
    """Refuse a name that is too long or is not text."""
    if not isinstance(name, str):
        raise InvalidArgument(f"the {kind} name is a string")
    try:
        size_bytes = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgument(f"the {kind} name is not valid UTF-8: use text") from None
    if size_bytes > NAME_BYTES_MAX:
        raise InvalidArgument(f"the {kind} name has {size_bytes} bytes, the limit is {NAME_BYTES_MAX}: shorten it")


def check_new_name(kind: str, name: str) -> None:
    """Refuse what a client must not name a new object."""
    check_name(kind, name)
    if name.startswith(RESERVED_PREFIX):
        raise AccessRefused(f"{kind} name '{name}' contains reserved prefix 'amq.*'")


def check_key(key: str) -> None:
    """Refuse a routing or binding key that is too long; bytes that are not UTF-8 are allowed as surrogate escapes."""
    try:
        size_bytes = len(key.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        raise InvalidArgument("the routing key is not valid text") from None
    if size_bytes > NAME_BYTES_MAX:
        raise InvalidArgument(f"the routing key has {size_bytes} bytes, the limit is {NAME_BYTES_MAX}: shorten it")
