"""Rounds: a broker is looked at again and again, and a look that fails is not the last one."""

import asyncio
from collections.abc import Awaitable, Callable

from leveret.core.errors import BrokerClosed, JournalFailed, LeveretError


async def make_rounds(
    look: Callable[[], Awaitable[None]], every_s: float, failed: Callable[[LeveretError], None]
) -> None:
    """Look now and then, until it is cancelled or there is no broker any more; `failed` hears why a look did."""
    while True:
        try:
            await look()
        except (BrokerClosed, JournalFailed):
            raise
        except LeveretError as error:  # the exit of the lock reports what could not be read meanwhile
            failed(error)
        await asyncio.sleep(every_s)
