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
-- An entry is in the window when now - window < score <= now. Nothing is added before every key was read, so a key
-- of a wrong type leaves the others as they were. All or nothing: a denied request is in no log.
--
-- When the clock steps back (a fail-over to a slower one), entries ahead of now become entries of now: each still
-- counts, and leaves at most one window later. A step of this server's own clock shows in the time to live, which
-- PEXPIRE GT then cannot move on; only then, on a denial, and for a caller's clock, the newest entry is looked at.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per key ZRANGE, ZCARD, ZADD, PEXPIRE, and while entries leave
-- the window ZREMRANGEBYSCORE and ZRANGE. Written without closures, which Lua would make anew at each call, and with
-- times as text (%d), since Redis 7.0 spends 0.5 us on writing a number argument as a double and reading it back.

local call, format = redis.call, string.format

local own_clock = ARGV[1] == ''
local now_text = ARGV[1]
if own_clock then
  local time = call('TIME')
  now_text = time[1] .. format('%03d', time[2] / 1000)
end
local now = tonumber(now_text)

local reply = { 1, 0, 0, 0 }

for i = 1, #KEYS do
  local key = KEYS[i]
  local limit, window, cap = tonumber(ARGV[5 * i - 2]), tonumber(ARGV[5 * i - 1]), tonumber(ARGV[5 * i])

  local count = 0
  local oldest = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  if oldest and oldest <= now - window then
    call('ZREMRANGEBYSCORE', key, '-inf', format('%d', now - window))
    oldest = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
  end
  if oldest then
    count = call('ZCARD', key)
    if cap > 0 and count > cap then
      call('ZREMRANGEBYRANK', key, 0, count - cap - 1)
      count = cap
      oldest = tonumber(call('ZRANGE', key, 0, 0, 'WITHSCORES')[2])
    end
    if count >= limit or not own_clock or call('PEXPIRE', key, ARGV[5 * i + 1], 'GT') == 0 then
      local newest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
      if newest > now then
        local ahead = call('ZRANGEBYSCORE', key, '(' .. now_text, '+inf')
        for j = 1, #ahead do
          call('ZADD', key, now_text, ahead[j])
        end
        oldest = math.min(oldest, now)
        call('PEXPIRE', key, ARGV[5 * i + 1])
      end
    end
  end

  local retry = 0
  if count >= limit then
    reply[1] = 0
    if limit < 1 then
      retry = -1
    elseif count == limit then
      retry = oldest + window - now
    else
      local leaver = call('ZRANGE', key, count - limit, count - limit, 'WITHSCORES')[2]
      retry = leaver + window - now
    end
  end
  reply[3 * i - 1] = count < limit and limit - count or 0
  reply[3 * i] = oldest and oldest + window - now or window
  reply[3 * i + 1] = retry
end

if reply[1] == 1 then
  for i = 1, #KEYS do
    local key, member = KEYS[i], ARGV[5 * i + 2]
    if member == '' then
      member = ARGV[2]
    end
    if call('ZADD', key, 'NX', now_text, member) == 0 then
      -- the id is in the log already: none is lost, both stay
      call('ZADD', key, now_text, member .. '~' .. ARGV[2])
    end
    if reply[3 * i - 1] == tonumber(ARGV[5 * i - 2]) or not own_clock then
      call('PEXPIRE', key, ARGV[5 * i + 1])  -- of a log that begins; GT would take "none" for the longest
    end
    reply[3 * i - 1] = reply[3 * i - 1] - 1
  end
end

return reply
