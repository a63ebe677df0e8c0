"""A verb is written once, for threads and for asyncio.

In this process one object has both: what changes something gives the commit batch to wait for, and the verbs wait.

    @durably
    def purge(self) -> Durable[int]: ...                      queue.purge() -> int
    _apurge = twin(purge)                                     AsyncQueue.purge = awaits(Queue._apurge)

A client has a class for each, which inherit verbs that are coroutine functions:

    class QueueVerbs:
        @verb
        async def send(self, body): ...

    class RemoteQueue(QueueVerbs, Threaded)                   queue.send(body) -> str
    class AsyncRemoteQueue(QueueVerbs, Asynchronous)          await queue.send(body) -> str

For threads, the coroutine runs to its end within the call. Nothing suspends it: what it awaits at last (a ThreadWaiter,
the ThreadNetwork of a client) blocks the thread instead.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
import warnings
from abc import ABCMeta
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import wraps
from types import MethodType, TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, overload

if TYPE_CHECKING:
    from leveret.runtime.runtime import Runtime

P = ParamSpec("P")
T = TypeVar("T")
Steps = Coroutine[Any, Any, T]
Durable = tuple[int, T]
"""A commit batch, and what to give when it is durable."""


class OfBroker(Protocol):
    """A broker in this process, or a part of it."""

    @property
    def runtime(self) -> Runtime:
        """What makes it durable."""


B = TypeVar("B", bound=OfBroker)
A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)


def deprecated(what: str) -> None:
    """Warn the caller of this package, however deep in it this is."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("leveret."):
        level, frame = level + 1, frame.f_back
    warnings.warn(what, DeprecationWarning, stacklevel=level)


def durably(change: Callable[Concatenate[B, P], Durable[T]]) -> Callable[Concatenate[B, P], T]:
    """A verb that returns when what it changed is durable."""

    @wraps(change)
    def changed(part: B, /, *args: P.args, **options: P.kwargs) -> T:
        commit_batch, outcome = change(part, *args, **options)
        part.runtime.wait(commit_batch)
        return outcome

    return changed


def twin(verb: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], Steps[T]]:
    """Such a verb for asyncio."""
    change = inspect.unwrap(verb)

    @wraps(change)
    async def changed(part: B, /, *args: P.args, **options: P.kwargs) -> T:
        outcome: T
        commit_batch, outcome = change(part, *args, **options)
        await part.runtime.wait_async(commit_batch)
        return outcome

    return changed


def in_thread(verb: Callable[Concatenate[B, P], T]) -> Callable[Concatenate[B, P], Steps[T]]:
    """A verb for asyncio that does its work in another thread, because it takes long."""

    @wraps(verb)
    async def worked(part: B, /, *args: P.args, **options: P.kwargs) -> T:
        return await asyncio.to_thread(verb, part, *args, **options)

    return worked


INTERNAL = frozenset(
    name
    for line in (
        "anyway broker check_partition clock core fetch find lease_of next_records note_read post post_bodies",
        "post_large post_many post_many_large post_prepared prepare processed receipt_of recorder rest",
        "run_call runtime send_prepared session settle stop_waiting tag take take_waiting",
    )
    for name in line.split()
)
"""What the rest of the package uses of the objects that programs have."""


class Public(ABCMeta):
    """A class that programs have: its internals are not in dir() and help()."""

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in INTERNAL]


class OldTwins:
    """The old names of verbs for asyncio: `asend` of a queue for threads, and so on; they are deprecated."""

    __slots__ = ()

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("a") and hasattr(type(self), f"_{name}"):
                deprecated(f"{name} is called {name[1:]} in what leveret.aopen() gives")
                return getattr(self, f"_{name}")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class AsyncPart(Generic[A_co], metaclass=Public):
    """A part of the broker in this process for asyncio; `sync` is the same for threads."""

    __slots__ = ("sync",)

    def __init__(self, sync: A_co) -> None:
        self.sync = sync

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.sync!r}>"


def awaits(verb: Callable[Concatenate[A, P], Steps[T]]) -> Callable[Concatenate[AsyncPart[A], P], Steps[T]]:
    """A verb of such a part, by the twin of the one for threads."""

    @wraps(verb)
    async def awaited(part: AsyncPart[A], /, *args: P.args, **options: P.kwargs) -> T:
        return await verb(part.sync, *args, **options)

    awaited.__name__ = verb.__name__.removeprefix("_a")
    return awaited


def at_once(verb: Callable[Concatenate[A, P], T]) -> Callable[Concatenate[AsyncPart[A], P], Steps[T]]:
    """The same for a verb that never waits."""

    @wraps(verb)
    async def done(part: AsyncPart[A], /, *args: P.args, **options: P.kwargs) -> T:
        return verb(part.sync, *args, **options)

    return done


def finish(steps: Steps[T]) -> T:
    """Run a coroutine that blocks where others suspend."""
    try:
        steps.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    raise AssertionError("a client for threads waits for an event loop")


def drain(items: AsyncGenerator[T, None]) -> Generator[T, None, None]:
    """Item after item of such a generator."""
    try:
        while True:
            try:
                item = finish(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        finish(items.aclose())


class verb(Generic[P, T]):
    """A method: a function in the client for threads, a coroutine function in the client for asyncio."""

    def __init__(self, steps: Callable[Concatenate[Any, P], Steps[T]]) -> None:
        @wraps(steps)
        def blocking(client: Any, /, *args: P.args, **options: P.kwargs) -> T:
            return finish(steps(client, *args, **options))

        self._steps, self._blocking = steps, blocking
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, client: None, kind: type) -> Callable[Concatenate[Any, P], Any]: ...
    @overload
    def __get__(self, client: Threaded, kind: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Asynchronous, kind: type) -> Callable[P, Steps[T]]: ...
    def __get__(self, client: Any, kind: type) -> Any:
        function = self._blocking if issubclass(kind, Threaded) else self._steps
        return function if client is None else MethodType(function, client)


class attribute(Generic[T]):
    """What may have to be asked for: an attribute in the client for threads, a verb in the client for asyncio."""

    def __init__(self, steps: Callable[[Any], Steps[T]]) -> None:
        self._steps = steps
        self.__doc__ = steps.__doc__

    @overload
    def __get__(self, client: None, kind: type) -> Self: ...
    @overload
    def __get__(self, client: Threaded, kind: type) -> T: ...
    @overload
    def __get__(self, client: Asynchronous, kind: type) -> Callable[[], Steps[T]]: ...
    def __get__(self, client: Any, kind: type) -> Any:
        if client is None:
            return self
        return finish(self._steps(client)) if isinstance(client, Threaded) else MethodType(self._steps, client)


class _Half(metaclass=Public):
    """A class that has its verbs as plain functions, which Python calls without asking their descriptor."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for name in dir(cls):
            if isinstance(inspect.getattr_static(cls, name), verb):
                setattr(cls, name, getattr(cls, name))


class Threaded(_Half):
    """The verbs of a class block the thread that calls them."""


class Asynchronous(_Half):
    """The verbs of a class are awaited."""


class Closable:
    """What ends with a `with` block."""

    @verb
    async def close(self) -> None:
        """Let go of what it has; once more is no error."""
        await self._close()

    async def _close(self) -> None:
        """There may be nothing to let go of."""


class ThreadedBlock(Closable, Threaded):
    """For `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsynchronousBlock(Closable, Asynchronous):
    """For `async with`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
