"""The API that programs import: a broker inside the process, for threads and asyncio, on memory or files.

broker.py          the broker as programs use it: opens, declares and closes everything
consumer.py        push: a callback for each message of a queue, in a thread of its own
exchange.py        an exchange as programs use it: publish to whatever is bound to it
group.py           a consumer group as programs use it: members share the partitions of a stream
group_consumer.py  a member of a consumer group that looks after itself
queue.py           a queue as programs use it: send, receive, settle, each for threads and for asyncio
stream.py          a stream as programs use it: send, and read from any place, again and again
worker.py          workers: threads that take messages, call a function with each
"""
