"""The Python client of a server: the verbs of the embedded broker over HTTP, for threads and for asyncio.

amqp/          the same over AMQP 0-9-1, on any broker that speaks it
broker.py      a server as its clients see it: leveret.connect(), and leveret.aconnect() for asyncio
calls.py       a request and the reading of its answer, and what requests and answers are made of
encryption.py  payloads that only their sender and receiver can read: Fernet on this side of the wire
group.py       a consumer group on a server: the verbs of the embedded one, and a member that looks after itself
message.py     messages and records that came over HTTP: the attributes of those of the embedded broker
network.py     how a client waits: for a connection, an answer, or some seconds; in a thread, or in a task
once.py        doing the work of a message once, whichever workers get it how often
queue.py       a queue on a server: the verbs of the embedded one
servers.py     the servers that a client may ask: one, or nodes of one cluster, any of which will do
session.py     the options of a client, and its requests
sinks.py       the verbs of sinks as requests: stage a piece, commit a batch, drop parts
stream.py      a stream on a server: the verbs of the embedded one
"""
