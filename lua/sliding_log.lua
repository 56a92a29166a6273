-- The exact sliding log (algorithm=log): a request is admitted when every one of its logs has room.
--
-- One call decides many groups, one after the other. A group is one or more requests that ask the same logs; of them
-- the first ones that fit are admitted, each by all of the group's logs or by none.
--
-- KEYS   the logs of all groups: ZSETs, member = request id, score = arrival in milliseconds
-- ARGV   [1] now in milliseconds, or '' to take this server's clock, then for each group:
--          how many logs, how many requests, and for each request a name that no other has: its member
--          and for each log: limit, window (ms), cap (entries, 0 = none), time to live (ms),
--            and 0, or 1 followed by an id per request to be the member instead ('' = none)
-- Reply  for each group { how many are admitted, then three per log: remaining, reset (ms), retry (ms) }, or an error
--        remaining: what is left of the limit after the last request admitted
--        reset:     until the oldest entry leaves the window; the window itself when the log was empty
--        retry:     for a request that was not admitted: until this log has room; 0 when it has, -1 when it never
--                   will (limit 0). All 0 when all were admitted
--
-- An entry is in the window when now - window < score <= now. Nothing is added before every log of the group was
-- read, so a key of a wrong type leaves the others as they were. A denied request is in no log.
--
-- When the clock steps back (a fail-over to a slower one), entries ahead of now become entries of now: each still
-- counts, and leaves at most one window later. A step of this server's own clock shows in the time to live, which
-- PEXPIRE GT then cannot move on; only then, on a denial, and for a caller's clock, the newest entry is looked at.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log ZRANGE, ZCARD, ZADD, PEXPIRE, and while entries leave
-- the window ZREMRANGEBYSCORE and ZRANGE. Written without closures, which Lua would make anew at each call, and with
-- times as text (%d), since Redis 7.0 spends 0.5 us on writing a number argument as a double and reading it back.

local call, pcall, format = redis.call, redis.pcall, string.format

local own_clock = ARGV[1] == ''
local now_text = ARGV[1]
if own_clock then
  local time = call('TIME')
  now_text = time[1] .. format('%03d', time[2] / 1000)
end
local now = tonumber(now_text)

local replies = {}
local before = 0  -- keys of the groups before
local at = 2      -- where the group's arguments begin

while before < #KEYS do
  local logs, requests = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local names = at + 1  -- name j is ARGV[names + j]
  local first = names + requests + 1
  local reply = { 0, 0, 0, 0 }
  local admitted = requests
  local failed = nil

  -- read: room and oldest entry of each log stand in the reply until all are known
  at = first
  for i = 1, logs do
    local key = KEYS[before + i]
    local limit, window, cap, ttl = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), ARGV[at + 3]
    at = at + 5
    if ARGV[at - 1] == '1' then
      at = at + requests
    end

    local head = not failed and pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
    if failed or head.err then
      failed = failed or head
    else
      local count = 0
      local oldest = tonumber(head[2])
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
        if count >= limit or not own_clock or call('PEXPIRE', key, ttl, 'GT') == 0 then
          local newest = tonumber(call('ZRANGE', key, -1, -1, 'WITHSCORES')[2])
          if newest > now then
            local ahead = call('ZRANGEBYSCORE', key, '(' .. now_text, '+inf')
            for j = 1, #ahead do
              call('ZADD', key, now_text, ahead[j])
            end
            oldest = math.min(oldest, now)
            call('PEXPIRE', key, ttl)
          end
        end
      end
      local room = limit - count
      if room < admitted then
        admitted = room > 0 and room or 0
      end
      reply[3 * i - 1], reply[3 * i] = room, oldest or false
    end
  end

  -- add, and tell
  local after = at
  at = first
  for i = 1, failed and 0 or logs do
    local key = KEYS[before + i]
    local limit, window = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
    local room, oldest = reply[3 * i - 1], reply[3 * i]
    local named = ARGV[at + 4] == '1'

    if admitted > 0 then
      local added = 0
      if not named and admitted > 1 then
        local entries = { 'ZADD', key, 'NX' }
        for j = 1, admitted do
          entries[2 * j + 2], entries[2 * j + 3] = now_text, ARGV[names + j]
        end
        added = pcall(unpack(entries))
      end
      -- one by one: where there is one, where they have ids, and what a name that exists kept out above
      local j = 1
      while type(added) == 'number' and added < admitted and j <= admitted do
        local name = ARGV[names + j]
        local member = named and ARGV[at + 4 + j] or name
        if member == '' then
          member = name
        end
        local new = (named or admitted == 1) and pcall('ZADD', key, 'NX', now_text, member) or 0
        if new == 0 then
          -- the id is in the log already: none is lost, both stay
          new = pcall('ZADD', key, 'NX', now_text, member .. '~' .. name)
        end
        added = type(new) == 'number' and added + new or new
        j = j + 1
      end
      if type(added) ~= 'number' then
        failed = added  -- no memory: the first log already refuses
        break
      end
      if not oldest or not own_clock then
        call('PEXPIRE', key, ARGV[at + 3])  -- of a log that begins; GT would take "none" for the longest
      end
    end

    local retry = 0
    if admitted < requests and room <= admitted then
      if limit < 1 then
        retry = -1
      elseif room < 0 then
        retry = call('ZRANGE', key, -room, -room, 'WITHSCORES')[2] + window - now
      else
        retry = (oldest or now) + window - now
      end
    end
    reply[3 * i - 1] = room > admitted and room - admitted or 0
    reply[3 * i] = oldest and oldest + window - now or window
    reply[3 * i + 1] = retry
    at = at + 5 + (named and requests or 0)
  end

  reply[1] = admitted
  replies[#replies + 1] = failed or reply
  before, at = before + logs, after
end

return replies
