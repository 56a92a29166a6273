-- The token bucket (algorithm=bucket): holds up to burst tokens, of which a request takes its cost; limit of them come
-- back in a window, evenly. lua/decide.lua, which follows this in the script, has the contract of a call.
--
-- A log is a HASH: used = tokens that were taken * window, a whole number, from which each ms takes limit; time = when it
-- was that (ms). None is a full bucket. What is kept is what was taken and not what is left, so that another limit or burst
-- applies to it at once. Reservations and denied requests that are counted take more than the bucket has. A blocked log
-- has "blocked until" (ms) and "blocked for" (ms).
--
-- It lives until it is full again, and the slack longer. The fields of a block that is over leave when the bucket is
-- written.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log
-- HGETALL, HSET and PEXPIRE; HGETALL alone when nothing has changed.

local call, pcall, format, floor = redis.call, redis.pcall, string.format, math.floor

local most_entries = math.huge

local now, now_text, own_clock

local longest_wait = 999999999999999

-- When the bucket holds so many tokens (ms).
local function filled_at(log, tokens)
  return now + math.min(math.ceil((tokens * log.window - log.level) / log.limit), longest_wait)
end

local function tell(log)
  local tokens = floor(log.level / log.window)
  log.used = log.capacity - tokens
  log.frees = tokens < log.capacity and log.limit > 0 and filled_at(log, tokens < 0 and 1 or tokens + 1)
end

local made
local function rarely()
  if made then
    return made
  end
  local it = {}
  made = it

  function it.room_at(log, missing)
    return filled_at(log, log.capacity - log.used + missing)
  end

  function it.newest()
    return now
  end

  function it.block(log, length, till)
    call('HSET', log.key, 'blocked until', format('%d', till), 'blocked for', format('%d', length))
  end

  function it.unblock(log)
    log.blocked = false
    call('HDEL', log.key, 'blocked until', 'blocked for')
  end

  function it.take_back(log)
    local fields, cost = call('HGETALL', log.key), log.options.cost
    local used, blocked = nil, false
    for i = 1, #fields, 2 do
      used = fields[i] == 'used' and tonumber(fields[i + 1]) or used
      blocked = blocked or fields[i] == 'blocked until'
    end
    if not used or cost == 0 then
      return false
    end
    call('PEXPIRE', log.key, log.ttl, 'GT')  -- a script that has begun to write is not refused for want of memory
    call('HSET', log.key, 'used', format('%.0f', math.max(used - cost * log.window, 0)))
    return true, blocked
  end

  return it
end

-- Made for a caller's clock only.
local latest = ARGV[1] ~= '' and function(log)
  local fields = pcall('HGETALL', log.key)
  local time, till, length = 0, 0, math.huge
  for i = 1, #fields, 2 do
    local value = tonumber(fields[i + 1]) or 0
    if fields[i] == 'time' then
      time = value
    elseif fields[i] == 'blocked until' then
      till = value
    elseif fields[i] == 'blocked for' then
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
  local used, time = 0, now
  for i = 1, #fields, 2 do
    local name, value = fields[i], tonumber(fields[i + 1])
    if not value then
      name = nil
    end
    if name == 'used' then
      used = value
    elseif name == 'time' then
      time = value
    elseif name == 'blocked until' then
      log.blocked = value
    elseif name == 'blocked for' then
      log.block_length = value
    else
      return { err = 'WRONGTYPE not a log of algorithm=bucket' }
    end
  end
  log.was_blocked = log.blocked and log.blocked <= now
  if log.was_blocked then
    log.blocked = false
  end
  log.changed = time > now  -- the clock has stepped back: from now on it fills
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
  local used = log.capacity * window - log.level
  local set = pcall('HSET', log.key, 'used', format('%.0f', used), 'time', now_text)
  if type(set) ~= 'number' then
    return set
  end
  if log.was_blocked and not log.blocked then
    rarely().unblock(log)
  end
  local ttl, to_fill = log.ttl, log.limit > 0 and used / log.limit or 0
  call('PEXPIRE', log.key, to_fill > window and format('%.0f', math.min(to_fill, longest_wait) - window + ttl) or ttl)
  tell(log)
end
