"""The proxy of a node: AMQP clients of whatever queue, each of which lives in some shard."""
