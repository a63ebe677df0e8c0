"""Two PostgreSQL: a primary, and a standby that every commit waits for and that can take its place.

Both are named in the URL of the store, and clients take the one that can be written to. A new primary waits for a
standby as well, so nothing is confirmed that only one of them has.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self
from urllib.parse import quote

from tests.postgres_server import USER, PostgresServer

SYNCHRONOUS = "select 1 from pg_stat_replication where sync_state = 'sync'"

SENDER = "select pid from pg_stat_replication"


class Pair:
    """The two; `primary` is another one after a failover."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        settings = {"synchronous_standby_names": "*", "wal_retrieve_retry_interval": "100ms"}
        self.primary, self.standby = PostgresServer(**settings), PostgresServer(**settings)
        self._folders = quote(f"{self.primary.folder},{self.standby.folder}", safe="")

    def new_url(self, schema: str) -> str:
        """An empty schema, and where it is reached on whichever is the primary."""
        self.primary.new_url(schema)
        place = f"postgresql:///postgres?host={self._folders}&user={USER}&target_session_attrs=read-write"
        return f"{place}&options=-csearch_path%3D{schema}"

    @contextmanager
    def deaf(self) -> Iterator[PostgresServer]:
        """Let the standby get nothing more from the primary, for good: whoever commits has to wait."""
        ((sender,),) = self.primary.sql(SENDER)
        os.kill(int(str(sender)), signal.SIGSTOP)
        try:
            yield self.primary
        finally:
            os.kill(int(str(sender)), signal.SIGKILL)  # not a word of what it has not sent

    def fail_over(self) -> None:
        """End the primary for good, promote the standby, and give it a standby."""
        self.primary.crash()
        self.primary, self.standby = self.standby, self.primary
        self.primary.sql("select pg_promote()")
        self.standby.copy(self.primary).start()
        self.primary.wait_for(SYNCHRONOUS)

    def __enter__(self) -> Self:
        """Start both."""
        try:
            self.primary.make().start()
            self.standby.copy(self.primary).start()
            self.primary.wait_for(SYNCHRONOUS)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End both."""
        self.standby.close()
        self.primary.close()
