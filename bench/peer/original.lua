-- The sliding log as it is usually published: the script that the Lua peer runs. Not what this module runs.
--
-- KEYS   [1] the log: a ZSET, score = arrival in milliseconds
-- ARGV   now (ms, the caller's clock), window (ms), limit, cap
-- Reply  { admitted (1 or 0), entries }

local key = KEYS[1]
local now, window, limit, cap = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

redis.call('ZREMRANGEBYSCORE', key, 0, now - window)
local count = redis.call('ZCARD', key)
if count > cap then
  redis.call('ZREMRANGEBYRANK', key, 0, count - cap - 1)
end
count = redis.call('ZCARD', key)
if count >= limit then
  return { 0, count }
end
redis.call('ZADD', key, now, now .. ':' .. math.random(1000000000))
redis.call('PEXPIRE', key, window + 1000)
return { 1, count + 1 }
