-- The sliding counter (algorithm=counter): the requests of this window, and those of the one before as far as it still
-- reaches into the last `window` ms. lua/decide.lua, which follows this in the script, has the contract of a call.
--
-- A log is a HASH: the start of a window (ms, a multiple of its length) => how many were admitted in it; with
-- reservations also of windows ahead, and "reserved" => the latest one (ms). A blocked log has "blocked until" (ms) and
-- "blocked for" (ms).
--
-- How much of the limit is used = all from this window on + the window before * the part of this one that is to come,
-- rounded up. It only falls with time, so the wait until there is room is exact to the millisecond.
--
-- It lives until the window after the latest is over: set when a window begins. By callers' clocks a window may last longer
-- than its length: there it lives a window longer than each request, too.
--
-- Fields of windows that are over, and of a block that is, leave where another field stays, else behind what is added.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log HGETALL and HINCRBY, and when a window begins PEXPIRE and
-- HDEL.

local call, pcall, format, floor = redis.call, redis.pcall, string.format, math.floor

local most_entries = math.huge

local now, now_text, own_clock

-- Each field of a log: here, before: counts; start: of this window (ms); ahead: counts of later windows by their start
-- (false: none); reserved: the latest reservation (ms); leaving: fields that leave when something is added (none: no
-- table).

-- When no more than `most` of the limit is used (ms), 0 or more.
local function falls_to(log, most)
  local window, start, before, here, ahead = log.window, log.start, log.before, log.here, log.ahead
  local current = here  -- of the window at `start` alone
  if ahead then
    for _, count in pairs(ahead) do
      current = current - count
    end
  end
  while true do
    if here <= most then
      local part = before > 0 and floor((most - here) * window / before) or window
      if part > 0 then
        return math.max(start + math.max(window - part, 0), now)
      end
    end
    start, before, here = start + window, current, here - current
    current = ahead and ahead[start] or 0
  end
end

local function tell(log)
  local part = log.before > 0 and math.ceil(log.before * (log.window - now + log.start) / log.window) or 0
  local used = log.here + part
  log.used = used
  log.frees = used > 0 and falls_to(log, math.max(math.min(used, log.limit) - 1, 0))
end

local made
local function rarely()
  if made then
    return made
  end
  local it = {}
  made = it

  function it.room_at(log, missing)
    return falls_to(log, log.used - missing)
  end

  function it.newest(log)
    return log.reserved
  end

  function it.block(log, length, till)
    call('HSET', log.key, 'blocked until', format('%d', till), 'blocked for', format('%d', length))
  end

  -- What stands in the HASH beside counts; false when it is not ours.
  function it.field(log, name, value)
    if name == 'blocked until' then
      log.blocked = value
    elseif name == 'blocked for' then
      log.block_length = value
    elseif name == 'reserved' then
      log.reserved = value
    else
      return false
    end
    return true
  end

  function it.unblock(log)
    log.blocked = false
    call('HDEL', log.key, 'blocked until', 'blocked for')
  end

  -- The count of a later window: of this one, where the clock has stepped back.
  function it.later(log, start, count, farthest)
    log.here = log.here + count
    if start <= farthest then
      local begin = start - start % log.window  -- a node with another window may have written it
      log.ahead = log.ahead or {}
      log.ahead[begin] = (log.ahead[begin] or 0) + count
    else
      call('HINCRBY', log.key, format('%d', log.start), format('%d', count))
      call('HDEL', log.key, format('%d', start))
    end
  end

  -- With one more field that is to leave; no more than can be deleted at once.
  function it.with(stale, field)
    stale = stale or {}
    if #stale < 1000 then
      stale[#stale + 1] = field
    end
    return stale
  end

  function it.remove(log, fields)
    log.leaving = false
    call('HDEL', log.key, unpack(fields))
  end

  function it.take_back(log, _, _, logged)
    local field = format('%d', logged - logged % log.window)
    local fields, cost = call('HGETALL', log.key), log.options.cost
    local count, blocked = nil, false
    for i = 1, #fields, 2 do
      count = fields[i] == field and tonumber(fields[i + 1]) or count
      blocked = blocked or fields[i] == 'blocked until'
    end
    if not count or cost == 0 then
      return false
    elseif count <= cost then
      call('HDEL', log.key, field)
    else
      call('PEXPIRE', log.key, log.ttl, 'GT')  -- a script that has begun to write is not refused for want of memory
      call('HINCRBY', log.key, field, format('%d', -cost))
    end
    return true, blocked
  end

  return it
end

-- Made for a caller's clock only. A reservation was made no longer before it than reservations are ahead.
local latest = ARGV[1] ~= '' and function(log)
  local fields = pcall('HGETALL', log.key)
  local start, reserved, till, length = 0, 0, 0, math.huge
  for i = 1, #fields, 2 do
    local begin, value = tonumber(fields[i]), tonumber(fields[i + 1]) or 0
    if begin then
      start = math.max(start, begin)
    elseif fields[i] == 'reserved' then
      reserved = value
    elseif fields[i] == 'blocked until' then
      till = value
    elseif fields[i] == 'blocked for' then
      length = value
    end
  end
  log.found = fields
  local ahead = log.options and log.options.ahead or 0
  return math.max(reserved < start and start or start - ahead, reserved - ahead, till - length)
end

local function read(log)
  local key, window = log.key, log.window
  local fields = log.found or pcall('HGETALL', key)
  if fields.err then
    return fields
  end
  if log.found or log.leaving then
    log.found, log.leaving = false, false  -- a seventeenth field would double the table of each log
  end
  local farthest = now + (log.options and log.options.ahead or 0)
  local start = now - now % window
  local stale = false
  log.start, log.before, log.here, log.ahead, log.reserved = start, 0, 0, false, 0
  for i = 1, #fields, 2 do
    local begin, value = tonumber(fields[i]), tonumber(fields[i + 1])
    if not value or not begin and not rarely().field(log, fields[i], value) then
      return { err = 'WRONGTYPE not a log of algorithm=counter' }
    elseif not begin then
      if log.reserved > farthest then
        log.reserved = 0
        stale = rarely().with(stale, 'reserved')
      end
    elseif begin >= start + window then
      rarely().later(log, begin, value, farthest)
    elseif begin >= start then
      log.here = log.here + value
    elseif begin >= start - window then
      log.before = log.before + value
    else
      stale = rarely().with(stale, fields[i])
    end
  end
  if log.blocked and log.blocked <= now then
    log.blocked = false
    stale = rarely().with(rarely().with(stale, 'blocked until'), 'blocked for')
  end
  if stale and 2 * #stale < #fields then
    rarely().remove(log, stale)
  elseif stale then
    log.leaving = stale
  end
  tell(log)
  return log.blocked and true or nil
end

local function add(log, _, from, to, at, denied)
  local key, options = log.key, log.options
  local more = to - from + 1
  if options then
    more = more * options.cost
    if denied and log.cap > 0 then
      more = math.max(math.min(more, log.cap - log.here), 0)
    end
  end
  if more <= 0 then
    return nil
  end
  local start = at and at - at % log.window or log.start
  local count = pcall('HINCRBY', key, format('%d', start), format('%d', more))
  if type(count) ~= 'number' then
    return count
  end
  if count == more then
    call('PEXPIRE', key, format('%d', log.ttl + log.window))
  elseif not own_clock then
    call('PEXPIRE', key, log.ttl, 'GT')
  end
  if log.leaving then
    rarely().remove(log, log.leaving)
  end
  if start > log.start then
    log.ahead = log.ahead or {}
    log.ahead[start] = (log.ahead[start] or 0) + more
  end
  if at and at > log.reserved then
    log.reserved = at
    call('HSET', key, 'reserved', format('%d', at))
  end
  log.here = log.here + more
  tell(log)
end
