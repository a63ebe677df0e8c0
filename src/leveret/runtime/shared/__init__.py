"""What all nodes share: in Redis, or in the memory of this process while Redis is away.

answers.py  answers to requests with an Idempotency-Key, so that a repeated request has the same one
keys.py     where Redis is, and every key in it, all of them under "leveret/CLUSTER/"
limits.py   limits that all nodes keep together: on requests, and on wrong passwords and tokens
redis.py    Redis, as long as it answers: a caller has an answer in time, or None and decides alone
"""
