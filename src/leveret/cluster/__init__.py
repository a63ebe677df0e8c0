"""A cluster: who owns which shard, definitions that all nodes agree on, and clients served by any node."""
