"""The broker inside a process: the verbs of the core for threads and asyncio, on memory or files.

broker.py          the broker as programs use it: opens, declares and closes everything
consumer.py        push: a callback for each message of a queue, in a thread of its own
declare.py         the options of a queue: what they are called here, which argument each sets
exchange.py        an exchange as programs use it: publish to whatever is bound to it
group.py           a consumer group as programs use it: members share the partitions of a stream
group_consumer.py  a member of a consumer group that looks after itself
managed.py         a queue as operators see it: look inside, cancel, purge, pause, delete, redrive, discard
message.pyx        messages as the embedded API hands them out, and the three batch loops
outgoing.py        a message on its way in
processed.py       what a worker has done: the ids of handled messages, durable
queue.py           a queue as programs use it: send, receive, settle, each for threads and for asyncio
reading.py         a place in one partition of a stream, moving on as it is read: waits for what is yet to come
records.py         a record of a stream, and where a reader may start
stream.py          a stream as programs use it: send, and read from any place, again and again
verbs.py           writes a verb once, for threads and for asyncio
worker.py          workers: threads that take messages, call a function with each
"""
