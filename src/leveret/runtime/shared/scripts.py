"""Idempotency keys in Redis: `SET NX` with the owner's token; only that owner may extend or release a key."""

# Gives what is known of the key, or '' to its owner from now on, also when that asks again after a lost answer.
CLAIM = """
local known = redis.call('GET', KEYS[1])
if known and known ~= ARGV[1] then return known end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return ''
"""
# Not over the mark of another, who has begun anew since this one was given up or evicted.
KEEP = """
local known = redis.call('GET', KEYS[1])
if known and known ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
DROP = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])
"""
