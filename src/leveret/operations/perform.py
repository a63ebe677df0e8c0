"""Operations by their names, for the adapters that take any that has a handler: the control socket, HTTP under
/operator/, the command line on a data directory, and the shards of a node.
"""

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from inspect import isawaitable
from typing import Any

from leveret.core import errors
from leveret.core.errors import InvalidArgument, LeveretError
from leveret.operations.context import OperationContext
from leveret.operations.operation import Operation
from leveret.operations.registry import OPERATIONS
from leveret.runtime.runtime import Runtime

SHOWN = ("name", "user", "vhost", "exchange", "stream", "section")  # the arguments that logs tell

Run = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Runs an operation and gives what it gives once that lasts; the operation may be run more than once."""


def handled() -> list[str]:
    """The names of the operations that have a handler."""
    return [name for name, operation in OPERATIONS.items() if operation.handler is not None]


def operation_of(name: object) -> Operation:
    """The operation of that name, which has a handler."""
    operation = OPERATIONS.get(name) if isinstance(name, str) else None
    if operation is None or operation.handler is None:
        near = get_close_matches(str(name), handled(), n=1)
        raise InvalidArgument(f"there is no verb {name!r}: {f'did you mean {near[0]!r}?' if near else 'see the help'}")
    return operation


def call(context: OperationContext, name: object, arguments: Mapping[str, Any]) -> Any:
    """Do an operation and give its result, fit for JSON, or what it comes from. The caller holds the lock."""
    return operation_of(name).call(context, arguments)


def durably(runtime: Runtime) -> Run:
    """Run operations under the lock of a broker, and wait for its disk."""

    async def run(operation: Callable[[], Any]) -> Any:
        with runtime:
            result = operation()
            frame = runtime.commit()
        await runtime.wait_async(frame)
        return result

    return run


async def perform(run: Run, context: OperationContext, name: object, arguments: dict[str, Any]) -> Any:
    """What an operation gives, once that lasts."""
    operation = operation_of(name)
    if operation.waits:
        result = operation.call(context, arguments)
    elif context.remote is not None and context.remote.has(operation.name):
        result = context.remote.perform(context, operation.name, arguments)
    else:
        result = await run(lambda: operation.call(context, arguments))
    return await result if isawaitable(result) else result


def shown(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of an operation that logs tell."""
    return {name: arguments[name] for name in SHOWN if name in arguments}


def refusal(error: LeveretError) -> dict[str, Any]:
    """An error as an answer."""
    return {"error": type(error).__name__, "message": str(error)}


def error_class(name: str) -> type[LeveretError]:
    """The refusal of that name; one of a newer server is a refusal all the same."""
    found = getattr(errors, name, None)
    return found if isinstance(found, type) and issubclass(found, LeveretError) else LeveretError
