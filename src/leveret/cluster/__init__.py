"""The cluster: which node owns which shard, where queues are placed, and definitions that all nodes agree on."""
