"""The catalog: all definitions of a cluster, its log, each node's replica, read leases and reconciliation.

auto_deletion.py   auto-delete and exclusive queues: deleted with their connection, or with its node
catalog.py         the catalog of a node: the definitions of the whole cluster
changes.py         changes of definitions, from the journal of one core to all others
database.py        the catalog database of a cluster: the database that has its definitions, and how it is moved
log.py             the log of the catalog: every change of definitions of a cluster
propagation.py     the propagation barrier: a change is answered when every node has applied it; stale clients
read_lease.py      the read lease: for how long a node answers by its replica of the catalog
reconciliation.py  the definitions of a shard: those of its cluster, as far as they concern it
replica.py         a copy of all definitions: a broker without messages, and which shards a message goes to by them
"""
