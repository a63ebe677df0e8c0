"""The shards of a node: opened, served, handed over, moved between shard groups.

group_operations.py  what operators do to the groups of a cluster, through any of its nodes
groups.py            the groups of a cluster: databases that have shards, and which of them has which
hosting.py           the shards of a node as its coordinator wants them: opened at an epoch, served, handed over
moving.py            shards of a node that change their group
shard.py             a shard: a whole broker that has some of the queues
"""
