"""The shards of a node: opened, served, handed over, moved between shard groups."""
