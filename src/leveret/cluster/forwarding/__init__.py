"""HTTP of a node: requests that are answered by the shard, or by the node, that has what they are about."""
