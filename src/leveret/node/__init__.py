"""A node of a cluster: the shards that it owns, its links to other nodes, and the front that clients talk to."""
