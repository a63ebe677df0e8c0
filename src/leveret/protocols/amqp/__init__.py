"""AMQP 0-9-1 as the server speaks it: login responses, channels, consumers, without sockets and without a broker.

handlers/       what each method does: one file for each AMQP class
bodies.py       large bodies: stored before their message is published, fetched before it is delivered
channel.py      one channel: consumers, transactions, the queue declared last
connection.py   one connection: bytes in, bytes out; logging in, channels, closing
description.py  connections, channels and consumers as operators see them, in RabbitMQ's words
firehose.py     the firehose of a virtual host: copies of what its clients publish and get
gathering.pyx   the content of a message that comes in several frames, gathered in one piece
handshake.py    how the server introduces itself, and how a client logs in: PLAIN, AMQPLAIN and EXTERNAL
hub.py          what all connections share: the broker under its lock, the list of what is to be sent
limits.py       what one connection may ask for: each row keeps a client from taking memory
names.py        names that clients give, and those that the server makes for them
publishing.py   publishes that ask for more: mandatory, copies, a delay, de-duplication
replying.py     direct reply-to: a consumer without a queue
server.py       the hub with its listeners and sockets, in an event loop
session.pyx     the frames of one connection, in and out: bytes in, calls out
state.py        how far a connection has come, and why the server may not read from it for a while
subscriber.pyx  a consumer on a channel: every message that a queue pushes becomes a basic.deliver
traffic.pyx     the messages of a channel: publishes that come in, confirms
transaction.py  what a channel in tx mode has collected: publishes that were routed already, and settlements
unacked.pyx     the deliveries of a channel that are not settled
watch.py        timeouts of a connection: heartbeats, and clients that are too slow
"""
