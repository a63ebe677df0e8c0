"""The broker runtime: the lock, the clock and the group commit around the core, and the verbs under that lock.

shared/              what all nodes share: in Redis, or in the memory of this process while Redis is away
bodies.py            bodies: bytes, text or anything that JSON can say
declare.py           declarations of queues, streams and exchanges; the options of a queue and which argument each sets
durability.py        when what was appended goes to the disk, and what waits until it is there
keywords.py          the keywords of the verbs that programs call, for type checkers
key_rotation.py      rotation of the encryption key: everything that another key encrypts, or none
large_bodies.py      large bodies: put into the blob store before their message is published
leases.py            renews the leases of messages that are being handled, each at half of its time
managed.py           a queue as operators see it: look inside, cancel, purge, pause, delete, redrive, discard
message.pyx          messages as users see them, and the three batch loops
outgoing.py          a message on its way in, and publishing it to an exchange
processed.py         what a worker has done: the ids of handled messages, durable
queue.py             the verbs of a queue that wait for nothing: to send, take and settle
reading.py           a record of a stream, and a place in one partition that moves on as it is read
receipts.pyx         receipts: strings that prove a lease
redrive.py           going through what waits in a queue: redrive moves messages, discard removes them
runtime.py           the one lock around the core, and what happens when it is taken and let go
stats.py             figures of queues and of the whole broker
storage.py           opening the core on a data directory or a database
stream.py            the verbs of a stream under the lock: append, read from any place, blocks for bulk readers
threads.py           threads for work that may wait for long, of an event loop, and the one that lets time pass
verbs.py             writes a verb once, for threads and for asyncio
waiters.py           threads, tasks and requests that wait for a message of a queue
"""
