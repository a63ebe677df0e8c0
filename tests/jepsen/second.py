"""The database of a second group of shards, on a machine of its own and without a standby: it comes back as it was."""

from typing import Self

from tests.cluster.coordination.etcd_process import free_ports
from tests.machine import Machine
from tests.postgres_server import USER, PostgresServer

ANYBODY = "host all all all trust\n"


class Second(PostgresServer):
    """One PostgreSQL that other machines reach."""

    def __init__(self, machine: Machine) -> None:
        """Nothing runs yet."""
        (port,) = free_ports(1)
        super().__init__(machine, listen_addresses=machine.address, port=str(port))
        self.group = f"postgresql://{USER}@{machine.address}:{port}/postgres"
        """Where nodes reach it."""

    def make(self) -> Self:
        """See PostgresServer."""
        super().make()
        with (self._data / "pg_hba.conf").open("a") as rules:
            rules.write(ANYBODY)
        return self
