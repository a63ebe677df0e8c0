"""The client for asyncio, used like the one for threads: the same test can be about both."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import isawaitable
from types import TracebackType
from typing import Any, Self

import leveret


class Awaited:
    """An object of the client; what it gives is waited for."""

    def __init__(self, runner: asyncio.Runner, target: Any) -> None:
        self._runner = runner
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found):
            return found
        return lambda *values, **options: self._waited(found(*values, **options))

    def _waited(self, result: Any) -> Any:
        result = self._runner.run(_value(result)) if isawaitable(result) else result
        return Awaited(self._runner, result) if type(result).__name__.startswith("Async") else result

    def __enter__(self) -> Self:
        self._runner.run(self._target.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.run(self._target.__aexit__(kind, error, trace))


async def _value(result: Any) -> Any:
    return await result


@contextmanager
def aconnected(url: str, token: str) -> Iterator[Awaited]:
    """A client for asyncio, in a loop that runs while something is waited for."""
    with asyncio.Runner() as runner:

        async def made() -> Any:
            return leveret.aconnect(url, token=token)

        with Awaited(runner, runner.run(made())) as broker:
            yield broker
