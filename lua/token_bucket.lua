-- The token bucket (algorithm=bucket): has up to burst tokens. A request takes its cost, and limit tokens return in
-- each window, evenly. lua/decide.lua has the contract of a call, and of what this file returns.
--
-- A log is a HASH: used = number of taken tokens * window, a whole number that falls by limit each ms; time = the time
-- of that number (ms). An empty log is a full bucket. The taken tokens are stored, not the remaining ones, so another
-- limit or burst applies to them at once. Reservations and denied requests that count take more than the bucket has. A
-- blocked log has "blocked until" (ms) and "blocked for" (ms).
--
-- .00000 and the time since when the bucket is not full (ms) are appended to time; a point alone means: since that
-- time. This does not change the number, and versions that do not know it drop it. Nothing is taken back for an earlier
-- request: its tokens have returned, or were lost with the log, and only tokens of other requests are missing.
--
-- A log lives until the bucket is full again, plus the slack. The fields of a block that is over are removed when the
-- bucket is written.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log HGETALL, HSET and PEXPIRE; HGETALL alone if nothing has
-- changed.

local now, now_text, own_clock = ...

local call, pcall, format, floor = redis.call, redis.pcall, string.format, math.floor

local most_entries = math.huge

-- The largest debt; more is ignored.
local most_used = 1e30

local NOT_OURS = 'WRONGTYPE not a log of algorithm=bucket'

-- The time when the bucket has `tokens` tokens (ms).
local function filled_at(log, tokens)
  return now + math.min(math.ceil((tokens * log.window - log.level) / log.limit), LATEST_TIME)
end

local function tell(log)
  local tokens = floor(log.level / log.window)
  log.used = log.capacity - tokens
  log.frees = tokens < log.capacity and log.limit > 0 and filled_at(log, tokens < 0 and 1 or tokens + 1)
end

local made
local function uncommon()
  if made then
    return made
  end
  local it = blocks_of_hash({})
  made = it

  function it.room_at(log, missing)
    return filled_at(log, log.capacity - log.used + missing)
  end

  function it.newest()
    return now
  end

  -- Since when a bucket with that field time is not full (ms); nil: unknown.
  local function since_in(time)
    return tonumber(string.match(time, '^%d+%.00000(%d+)$') or string.match(time, '^(%d+)%.$'))
  end

  -- The same as text to append to time. The clock may have stepped back to before it.
  function it.since(time)
    local since = since_in(time)
    return since and '.00000' .. format('%d', math.min(since, now)) or ''
  end

  function it.take_back(log, _, _, _, taken)
    local fields, cost = call('HGETALL', log.key), log.options.cost
    local used, since, blocked = nil, nil, false
    for i = 1, #fields, 2 do
      local name, text = fields[i], fields[i + 1]
      if name == 'used' then
        used = tonumber(text) or -1
      elseif name == 'time' then
        since = since_in(text)
      end
      blocked = blocked or name == BLOCKED_UNTIL
    end
    if not used or cost == 0 or since and taken < since then
      return false
    elseif not (used >= 0 and used <= most_used) then
      error({ err = NOT_OURS })
    end
    call('PEXPIRE', log.key, log.ttl, 'GT')  -- Redis does not refuse a script for lack of memory once it has written
    call('HSET', log.key, 'used', format('%.0f', math.max(used - cost * log.window, 0)))
    return true, blocked
  end

  -- Takes more tokens, so the bucket will be full later than stored. If it was full at the end of the request (`ended` is
  -- false: when the request was decided), these are the first tokens that are missing, from then on. If the log is gone,
  -- the time at which the bucket was full is not known: the log may have expired then, or was removed by hand.
  function it.owe(log, more, _, taken, ended)
    taken = ended or taken
    local window, limit = log.window, log.limit
    local fields, used, time, time_text = call('HGETALL', log.key), nil, nil, nil
    for i = 1, #fields, 2 do
      if fields[i] == 'used' then
        used = tonumber(fields[i + 1]) or -1
      elseif fields[i] == 'time' then
        time, time_text = tonumber(fields[i + 1]) or -1, fields[i + 1]
      end
    end
    if used and not (used >= 0 and used <= most_used and time and time >= 0 and time <= LATEST_TIME) then
      error({ err = NOT_OURS })
    elseif not used then
      time = ended or now
      used, time_text = 0, format('%d', time) .. '.'
    elseif (taken - time) * limit > used then
      time = math.min(taken, now)
      used, time_text = 0, format('%d', time) .. '.'
    end
    used = math.min(used + more * window, most_used)
    if ended and (now - time) * limit >= used then
      return false
    end
    call('HSET', log.key, 'used', format('%.0f', used), 'time', time_text)
    local to_fill = limit > 0 and used / limit - math.max(now - time, 0) or 0
    local ttl = to_fill > window and format('%.0f', math.min(to_fill, LATEST_TIME) - window + log.ttl) or log.ttl
    if #fields == 0 then
      call('PEXPIRE', log.key, ttl)
    else
      call('PEXPIRE', log.key, ttl, 'GT')
    end
    return true
  end

  return it
end

-- For a caller's clock only.
local latest = not own_clock and function(log)
  local fields = pcall('HGETALL', log.key)
  local time, till, length = 0, 0, math.huge
  for i = 1, #fields, 2 do
    local value = tonumber(fields[i + 1]) or 0
    if fields[i] == 'time' then
      time = value
    elseif fields[i] == BLOCKED_UNTIL then
      till = value
    elseif fields[i] == BLOCKED_FOR then
      length = value
    end
  end
  log.found = fields
  return math.max(time, till - length)
end

local function read(log)
  local fields = log.found or pcall('HGETALL', log.key)
  if fields.err then
    return fields
  end
  log.found = false
  local used, time, time_text = 0, now, ''
  for i = 1, #fields, 2 do
    local name, value = fields[i], tonumber(fields[i + 1])
    if not value then
      name = nil
    end
    if name == 'used' then
      used = value
    elseif name == 'time' then
      time, time_text = value, fields[i + 1]
    elseif name == BLOCKED_UNTIL then
      log.blocked = value
    elseif name == BLOCKED_FOR then
      log.block_length = value
    else
      return { err = NOT_OURS }
    end
  end
  if not (used >= 0 and used <= most_used and time <= LATEST_TIME) then
    return { err = NOT_OURS }
  end
  log.was_blocked = log.blocked and log.blocked <= now
  if log.was_blocked then
    log.blocked = false
  end
  log.time_text = time_text
  log.changed = time > now  -- the clock has stepped back: tokens return from now on
  if time < now then
    used = used - (now - time) * log.limit
  end
  log.level = log.capacity * log.window - (used > 0 and used or 0)
  tell(log)
  return log.blocked and true or nil
end

local function add(log, _, from, to, _, denied)
  local window = log.window
  local level = log.level
  local more = to - from + 1
  if log.options then
    more = more * log.options.cost
  end
  log.level = level - more * window
  if denied and log.cap > 0 then
    log.level = math.min(level, math.max(log.level, (log.capacity - log.cap) * window))
  end
  if log.level == level and not log.changed then
    return nil
  end
  local full = log.capacity * window
  local used, since = full - log.level
  if used > most_used then
    used, log.level = most_used, full - most_used
  end
  if level >= full then
    since = '.'
  else
    since = string.sub(log.time_text, #now_text + 1)
    if since == '.' or log.changed then
      since = uncommon().since(log.time_text)
    end
  end
  local time_text = now_text .. since
  -- %d takes less time, but is exact only below 2^53
  local set = pcall('HSET', log.key, 'used', format(used < 2 ^ 53 and '%d' or '%.0f', used), 'time', time_text)
  if type(set) ~= 'number' then
    return set
  end
  log.time_text, log.changed = time_text, false
  if log.was_blocked and not log.blocked then
    uncommon().unblock(log)
  end
  local ttl, to_fill = log.ttl, log.limit > 0 and used / log.limit or 0
  call('PEXPIRE', log.key, to_fill > window and format('%.0f', math.min(to_fill, LATEST_TIME) - window + ttl) or ttl)
  tell(log)
end

local set_now = not own_clock and function(ms, text)
  now, now_text = ms, text
end

return read, add, uncommon, most_entries, latest, set_now
