"""What Redis does with a key that somebody begins something under: a mark is his, whatever else is there is not."""

# Gives what is known of the key, or '' to whose it is from now on, also when he asks again after a lost answer.
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
