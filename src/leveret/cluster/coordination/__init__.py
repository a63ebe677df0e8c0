"""Coordination by etcd: membership, leases, and the ownership of shards.

coordinator.py  a node at work in its cluster: the lease, the watch and the commands of ownership.py
etcd.py         a small client of etcd: leases, keys, transactions and watches, by its JSON gateway (version 3)
keys.py         every key that a cluster has in etcd, and what a node knows by them: members and owners
ownership.py    which shards a node has: a state machine without I/O. Time, answers and what etcd says come in
placement.py    which shard a queue is in, and which node should have a shard
"""
