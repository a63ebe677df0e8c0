"""The client over AMQP 0-9-1: the verbs of the client over HTTP, on any broker that speaks it.

broker.py      what leveret.connect("amqp://...") gives: the verbs of a broker and of exchanges
channels.py    channels of a connection: calls in turn, and publishes with confirms
connection.py  a connection without its socket: login, channels, heartbeats, and everything again after it was lost
link.py        how verbs reach the connection, from threads or from tasks
message.py     messages and records that came over AMQP
outbox.py      messages on their way out: headers that are made once, ids, and what became of them
queue.py       a queue over AMQP
receiving.py   messages of a queue: taken or pushed, and settled
session.py     what verbs of one client share
servers.py     the servers that an amqp URL names, and when the next one is tried
stream.py      a stream over AMQP
task_link.py   the connection for the tasks of a loop
thread_link.py  the connection for threads, one of which reads
traffic.pyx    frames in and out: deliveries, confirms, publishes
"""
