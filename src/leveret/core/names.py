"""Names of exchanges, queues and virtual hosts: how long, which are reserved, how errors spell them."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Mapping
from typing import Any

from leveret.core.errors import AccessRefused, InvalidArgument

NAME_BYTES_MAX = 255  # an AMQP short string; a longer name could not be told to any client
PROCESSED_SUFFIX = ".processed"  # of the queue that remembers what workers of another one have done
RESERVED_PREFIX = "amq."
INTERNAL_VHOST = "amq.leveret"  # where a shard keeps what is for others: no client can name it, and no list has it
CONSUMER_NAME_CHARS_MAX = 128  # names of consumers are kept for ever, and clients choose them
CHANGES_MAX = 1_000  # since the last look; moving the names behind one takes as long as a thousandth of sorting all


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


class SortedNames:
    """The keys of a dictionary in their order, for lists in pages; the dictionary tells what it adds and removes.

    A hundred thousand names are sorted when the first page is asked for. From then on each name that comes or goes
    finds its place by bisection, unless very many do so before the next look: then they are sorted anew.
    """

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._sorted: list[str] | None = None
        self._changes = 0

    def add(self, name: str) -> None:
        names = self._kept()
        if names is not None:
            insort(names, name)

    def remove(self, name: str) -> None:
        names = self._kept()
        if names is not None:
            del names[bisect_left(names, name)]

    def _kept(self) -> list[str] | None:
        """The order, if it is worth keeping for one more change."""
        self._changes += 1
        if self._changes > CHANGES_MAX:
            self._sorted = None
        return self._sorted

    def all(self) -> list[str]:
        """Every name; the list is shared: do not change it."""
        if self._sorted is None:
            self._sorted = sorted(self._named)
        self._changes = 0
        return self._sorted

    def after(self, name: str, prefix: str = "") -> Iterator[str]:
        """The names behind one, of those that begin so; nothing may come or go meanwhile."""
        names = self.all()
        for place in range(max(bisect_right(names, name) if name else 0, bisect_left(names, prefix)), len(names)):
            if not names[place].startswith(prefix):
                return
            yield names[place]
