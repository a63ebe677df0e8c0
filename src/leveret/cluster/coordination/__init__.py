"""Coordination by etcd: membership, leases, and the ownership of shards."""
