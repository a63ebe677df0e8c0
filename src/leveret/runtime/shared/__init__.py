"""What all nodes share: in Redis, or in the memory of this process while Redis is away.

answers.py     answers to requests with an Idempotency-Key, so that a repeated request has the same one
failures.py    wrong passwords and tokens that all nodes count together
keys.py        every key in Redis, all of them under "leveret/CLUSTER/", with "-" for a server that is no node
memory.py      what one process remembers for a while: bounded, the oldest goes first; for all threads
rate_limit.py  a rate limit that all nodes keep together, without a request that waits for Redis
redis.py       Redis, as long as it answers: a caller has an answer in time, or None and decides alone
redis_url.py   where Redis is: redis://[user][:password]@host[:port][/database], or rediss:// with TLS
scripts.py     idempotency keys in Redis: `SET NX` with the owner's token
"""
