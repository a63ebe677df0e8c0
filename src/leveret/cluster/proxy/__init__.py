"""The proxy of a node: AMQP clients that use queues of any shard.

channel.py              a client's channel on a node: its publishes go to the shards of their queues
claims.py               what a proxy and a shard tell each other beside AMQP
confirms.pyx            confirms of a channel whose publishes go to several shards
connection.py           a client's connection to a node
handlers.py             what methods of clients do on a node: those about messages ask the shard of a queue
orphaned_deliveries.py  deliveries of a failed owner that clients may still be working on, and its exclusive consumers
proxied.py              a client of a proxy in a shard: a connection without a socket
relay.pyx               messages of a client on their way to shards and back
sessions.py             clients of one node in shards of another, and direct replies, with a link between
shard_channel.py        the part of a client's channel that is in one shard: a channel there, with the same number
shard_connection.py     what one client's connection has in one shard
tags.pyx                delivery tags of a channel whose messages come from several shards, and names of messages
"""
