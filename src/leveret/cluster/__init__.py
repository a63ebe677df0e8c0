"""A cluster: the ownership of shards, definitions that all nodes agree on, and clients served by any node.

catalog/        the catalog: all definitions of a cluster, its log, each node's replica
coordination/   coordination by etcd: membership, leases, and the ownership of shards
forwarding/     HTTP of a node: requests that are answered by the shard, or by the node
proxy/          the proxy of a node: AMQP clients of whatever queue, each of which lives in some shard
rpc/            peer links: one authenticated connection between two nodes, with streams and calls on it
shards/         the shards of a node: opened, served, handed over, moved between shard groups
transfer/       cross-shard transfer: a transactional outbox, and a sender for each destination
joined.py       a node in its cluster: what is decided by etcd, kept in PostgreSQL, and served by every node
node.py         a node: which shards it serves, how it reaches those of others
operations.py   the operations on a cluster that an operator asks of one of its nodes
"""
