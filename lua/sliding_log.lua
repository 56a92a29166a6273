-- The exact sliding log (algorithm=log): a request is admitted when every one of its logs has room.
--
-- KEYS   one log per limit of the request: a ZSET, member = request id, score = arrival in milliseconds
-- ARGV   [1] now in milliseconds, or '' to take this server's clock
--        [2] a name that no other request has: the member, where the limit gives no id of its own
--        then five per key: limit, window (ms), cap (entries, 0 = none), time to live (ms), id ('' = none)
-- Reply  { admitted (1 or 0), then three per key: remaining, reset (ms), retry (ms) }
--        remaining: what is left of the limit after this request
--        reset:     until the oldest entry leaves the window; the window itself when the log is empty
--        retry:     until this key has room; 0 when it has, -1 when it never will (limit 0)
--
-- An entry is in the window when now - window < score <= now. Nothing is written before every key was read,
-- so a key of a wrong type leaves the others as they were. All or nothing: a denied request is in no log.
--
-- Cost: TIME, then per key ZRANGE, ZRANGE, ZCARD (an empty log: one ZRANGE), when entries left the window
-- ZREMRANGEBYSCORE and ZRANGE, and when admitted ZADD and PEXPIRE.

local call = redis.call

local now = tonumber(ARGV[1])
if not now then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

local function oldest_score(key)
  return tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
end

-- The clock stepped back (a fail-over to a slower one): entries ahead of now become entries of now, so that
-- each still counts, and leaves at most one window later.
local function pull_back_to_now(key, ttl)
  local ahead = call('ZRANGEBYSCORE', key, string.format('(%.0f', now), '+inf')
  for _, member in ipairs(ahead) do
    call('ZADD', key, now, member)
  end
  call('PEXPIRE', key, ttl)
end

local admitted = 1
local reply = { admitted }

for i, key in ipairs(KEYS) do
  local limit, window = tonumber(ARGV[5 * i - 2]), tonumber(ARGV[5 * i - 1])
  local cap, ttl = tonumber(ARGV[5 * i]), ARGV[5 * i + 1]

  local count = 0
  local oldest = oldest_score(key)
  if oldest and oldest <= now - window then
    call('ZREMRANGEBYSCORE', key, '-inf', now - window)
    oldest = oldest_score(key)
  end
  if oldest then
    local newest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
    if newest > now then
      pull_back_to_now(key, ttl)
      oldest = math.min(oldest, now)
    end
    count = call('ZCARD', key)
    if cap > 0 and count > cap then
      call('ZREMRANGEBYRANK', key, 0, count - cap - 1)
      count = cap
      oldest = oldest_score(key)
    end
  end

  local retry = 0
  if count >= limit then
    admitted = 0
    if limit < 1 then
      retry = -1
    else
      local leaver = oldest
      if count > limit then
        leaver = tonumber(call('ZRANGE', key, count - limit, count - limit, 'WITHSCORES')[2])
      end
      retry = leaver + window - now
    end
  end

  reply[3 * i - 1] = math.max(limit - count, 0)
  reply[3 * i] = oldest and oldest + window - now or window
  reply[3 * i + 1] = retry
end

reply[1] = admitted
if admitted == 1 then
  for i, key in ipairs(KEYS) do
    local unique, id = ARGV[2], ARGV[5 * i + 2]
    local member = id == '' and unique or id
    if call('ZADD', key, 'NX', now, member) == 0 then
      -- the id is in the log already: none is lost, both stay
      call('ZADD', key, now, member .. '~' .. unique)
    end
    call('PEXPIRE', key, ARGV[5 * i + 1])
    reply[3 * i - 1] = reply[3 * i - 1] - 1
  end
end

return reply
