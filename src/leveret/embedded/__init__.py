"""The API that programs import: a broker inside the process, for threads and asyncio, on memory or files.

asynchronous.py  all of it for asyncio: leveret.aopen()
broker.py    the broker as programs use it: opens, declares and closes everything
exchange.py  an exchange as programs use it: publish to whatever is bound to it
group.py     consumer groups as programs use them, and a member that looks after itself
queue.py     a queue as programs use it: send, receive, settle, push; each for threads and for asyncio
stream.py    a stream as programs use it: send, and read from any place, again and again
worker.py    workers: threads that take messages, call a function with each
"""
