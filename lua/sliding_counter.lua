-- The sliding counter (algorithm=counter): the requests of this window, and a part of those of the previous window, as
-- large as the part of that window in the last `window` ms. lua/decide.lua has the contract of a call, and of what this
-- file returns.
--
-- A log is a HASH: a time (ms) => the number of requests admitted in its window. The time is that of the window's first
-- request. It is the start of the window (a multiple of its length) for reservations in later windows, and for counts
-- written by versions that used only starts. So a window may have several fields, whose sum counts. "reserved" => the
-- latest reservation (ms), with .00000 and the time of the first reservation appended, which does not change the
-- number. A blocked log has "blocked until" (ms) and "blocked for" (ms).
--
-- The times of the fields show what a take-back may change: a count that began after the request was decided has only
-- other requests, since the log was lost in between, and is not changed.
--
-- Used part of the limit = count from this window on + count of the previous window * the part of this window that is
-- to come, rounded up. It only falls with time, so the wait until there is room is exact to the millisecond.
--
-- A log lives until the end of the window after its last one; the time to live is set when a window begins. With the
-- callers' clocks a window may last longer than its length: there the log also lives a window longer than each request.
--
-- Fields of past windows, and of a block that is over, are removed if another field stays, or after something was
-- added.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log HGETALL and HINCRBY; PEXPIRE and HDEL when a window begins.

local now, now_text, own_clock = ...

local call, pcall, format, floor = redis.call, redis.pcall, string.format, math.floor

local most_entries = math.huge

-- Above this, numbers in Lua are not exact.
local most_counted = 2 ^ 53

local NOT_OURS = 'WRONGTYPE not a log of algorithm=counter'

-- Fields of a log: here, before: counts of this window and all later ones, and of the previous window; start: of this
-- window (ms); field: of the HASH, for requests admitted now (false: none yet); ahead: counts of later windows by their
-- start (false: none); reserved: latest reservation (ms; nil: none); reserved_since: the time appended to it (text);
-- leaving: fields to remove when something is added (none: no table).

-- The time when at most `most` (0 or more) of the limit is used (ms).
local function falls_to(log, most)
  local window, start, before, here, ahead = log.window, log.start, log.before, log.here, log.ahead
  local current = here  -- of the window at `start` only
  local later           -- later windows with a count, the latest first
  if ahead then
    later = {}
    for begin, count in pairs(ahead) do
      later[#later + 1] = begin
      current = current - count
    end
    table.sort(later, function(one, other) return one > other end)
  end
  while true do
    if here <= most then
      local part = before > 0 and floor((most - here) * window / before) or window
      if part > 0 then
        return math.max(start + math.max(window - part, 0), now)
      end
    end
    local left = later and #later or 0
    if current == 0 and here > most and left > 0 then
      start = later[left] - window  -- windows without a count are skipped
    end
    start, before, here, current = start + window, current, left > 0 and here - current or 0, 0
    if left > 0 and later[left] == start then
      current, later[left] = ahead[start], nil
    end
  end
end

local function tell(log)
  local part = log.before > 0 and math.ceil(log.before * (log.window - now + log.start) / log.window) or 0
  local used = log.here + part
  log.used = used
  log.frees = used > 0 and falls_to(log, math.max(math.min(used, log.limit) - 1, 0))
end

local made
local function uncommon()
  if made then
    return made
  end
  local it = blocks_of_hash({})
  made = it

  function it.room_at(log, missing)
    return falls_to(log, math.max(log.used - missing, 0))
  end

  function it.newest(log)
    return log.reserved or 0
  end

  -- Reads a field that is not a count; false if a log has no such field.
  function it.field(log, name, value, text)
    if name == BLOCKED_UNTIL then
      log.blocked = value
    elseif name == BLOCKED_FOR then
      log.block_length = value
    elseif name == 'reserved' and value >= 0 then
      log.reserved, log.reserved_since = floor(value), string.match(text, '%.00000(%d+)$')
    else
      return false
    end
    return true
  end

  -- Reads the count of a later window. If the clock has stepped back, it becomes a count of this window.
  function it.later(log, field, start, count, farthest)
    log.here = log.here + count
    if start <= farthest then
      local begin = start - start % log.window  -- written by a node with another window
      log.ahead = log.ahead or {}
      log.ahead[begin] = (log.ahead[begin] or 0) + count
    else
      log.field = log.field or format('%d', log.start)
      call('HINCRBY', log.key, log.field, format('%d', count))
      call('HDEL', log.key, field)
    end
  end

  -- Appends a field to remove; at most as many as one command can delete.
  function it.with(stale, field)
    stale = stale or {}
    if #stale < 1000 then
      stale[#stale + 1] = field
    end
    return stale
  end

  function it.remove(log, fields)
    log.leaving = false
    local leaving = fields
    if log.blocked then
      leaving = {}
      for i = 1, #fields do
        if string.sub(fields[i], 1, 8) ~= 'blocked ' then
          leaving[#leaving + 1] = fields[i]
        end
      end
    end
    if #leaving > 0 then
      call('HDEL', log.key, unpack(leaving))
    end
  end

  -- Stores the latest reservation, and when the first one was made.
  function it.reserve(log, at)
    local since = log.reserved and log.reserved_since
    if not log.reserved or since and tonumber(since) > now then
      since = now_text
    end
    at = math.max(at, log.reserved or 0)
    log.reserved, log.reserved_since = at, since
    call('HSET', log.key, 'reserved', format('%d', at) .. (since and '.00000' .. since or ''))
  end

  -- The counts of the window at `start` that may include a request decided at `taken`, the latest first; and whether
  -- the log is blocked.
  local function counts_of(log, start, taken)
    local fields, counts, blocked, since = call('HGETALL', log.key), {}, false, nil
    for i = 1, #fields, 2 do
      local name, begin, value = fields[i], tonumber(fields[i]), tonumber(fields[i + 1])
      if begin and begin >= start and begin < start + log.window and (begin <= taken or begin == start) then
        counts[#counts + 1] = value and value >= 0 and { name = name, begin = begin, count = value }
          or error({ err = NOT_OURS })
      end
      blocked = blocked or name == BLOCKED_UNTIL
      since = since or name == 'reserved' and tonumber(string.match(fields[i + 1], '%.00000(%d+)$'))
    end
    if since and taken < start and taken < since then
      return {}
    end
    table.sort(counts, function(one, other) return one.begin > other.begin end)
    return counts, blocked
  end

  function it.take_back(log, _, _, logged, taken)
    local key, left = log.key, log.options.cost
    local start = logged - logged % log.window
    local counts, blocked = counts_of(log, start, taken)
    for i = 1, left > 0 and #counts or 0 do
      local name, count = counts[i].name, counts[i].count
      if count <= left then
        call('HDEL', key, name)
      elseif left > 0 then
        call('PEXPIRE', key, log.ttl, 'GT')  -- Redis does not refuse a script for lack of memory once it has written
        call('HINCRBY', key, name, format('%d', -left))
      end
      left = math.max(left - count, 0)
    end
    return left < log.options.cost, blocked and start + 2 * log.window > now
  end

  -- Adds to the latest count, unless that is of a window before the end of the request; if `ended` is false, to the
  -- latest count that may include the request.
  function it.owe(log, more, logged, _, ended)
    local key, window, at = log.key, log.window, ended or math.min(logged, now)
    local start = at - at % window
    if start < now - now % window - window then
      return false
    end
    local fields, since, field, counted = call('HGETALL', key), -1, nil, 0
    for i = 1, #fields, 2 do
      local begin = tonumber(fields[i])
      if begin and begin >= start and begin < (ended and most_counted or start + window) then
        counted = counted + (tonumber(fields[i + 1]) or error({ err = NOT_OURS }))
        if (ended or begin <= at) and begin > since then
          since, field = begin, fields[i]
        end
      end
    end
    more = math.min(more, MOST_OWED - counted)
    if more < 1 then
      return false
    end
    call('HINCRBY', key, field or format('%d', at), format('%d', more))
    if #fields == 0 then
      call('PEXPIRE', key, format('%d', log.ttl + window))
    elseif not field or ended and not own_clock then
      call('PEXPIRE', key, format('%d', log.ttl + window), 'GT')
    end
    return true
  end

  return it
end

-- For a caller's clock only. A reservation was made at most `ahead` before its time.
local latest = not own_clock and function(log)
  local fields = pcall('HGETALL', log.key)
  local start, reserved, till, length = 0, 0, 0, math.huge
  for i = 1, #fields, 2 do
    local begin, value = tonumber(fields[i]), tonumber(fields[i + 1]) or 0
    if begin then
      start = math.max(start, begin)
    elseif fields[i] == 'reserved' then
      reserved = value
    elseif fields[i] == BLOCKED_UNTIL then
      till = value
    elseif fields[i] == BLOCKED_FOR then
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
    log.found, log.leaving = false, false  -- a 17th field would double the size of the log's table
  end
  local farthest = now + (log.options and log.options.ahead or 0)
  local start = now - now % window
  log.start, log.before, log.here, log.ahead, log.field = start, 0, 0, false, false
  if log.reserved then
    log.reserved = nil  -- not set unless needed: one more field would enlarge the table
  end
  local since, stale = 0, false
  for i = 1, #fields, 2 do
    local begin, value = tonumber(fields[i]), tonumber(fields[i + 1])
    if not begin then
      if not value or not uncommon().field(log, fields[i], value, fields[i + 1]) then
        return { err = NOT_OURS }
      elseif log.reserved and log.reserved > farthest then
        log.reserved = nil
        stale = uncommon().with(stale, 'reserved')
      end
    elseif not (value and value >= 0 and value % 1 == 0 and begin >= 0 and begin < most_counted) then
      return { err = NOT_OURS }
    elseif begin >= start + window then
      uncommon().later(log, fields[i], begin, value, farthest)
    elseif begin >= start then
      log.here = log.here + value
      if begin >= since and begin <= now then
        since, log.field = begin, fields[i]
      end
    elseif begin >= start - window then
      log.before = log.before + value
    else
      stale = uncommon().with(stale, fields[i])
    end
  end
  if log.here + log.before > most_counted then
    return { err = NOT_OURS }
  end
  if log.blocked and log.blocked <= now then
    log.blocked = false
    stale = uncommon().with(uncommon().with(stale, BLOCKED_UNTIL), BLOCKED_FOR)
  end
  if stale and 2 * #stale < #fields then
    uncommon().remove(log, stale)
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
  local field = start > log.start and format('%d', start) or log.field or now_text
  local count = pcall('HINCRBY', key, field, more == 1 and '1' or format('%d', more))
  if type(count) ~= 'number' then
    return count
  end
  if count == more then
    call('PEXPIRE', key, format('%d', log.ttl + log.window))
  elseif not own_clock then
    call('PEXPIRE', key, log.ttl, 'GT')
  end
  if log.leaving then
    uncommon().remove(log, log.leaving)
  end
  if start > log.start then
    log.ahead = log.ahead or {}
    log.ahead[start] = (log.ahead[start] or 0) + more
  else
    log.field = field
  end
  if at and (at > (log.reserved or 0) or (tonumber(log.reserved_since) or 0) > now) then
    uncommon().reserve(log, at)
  end
  log.here = log.here + more
  tell(log)
end

local set_now = not own_clock and function(ms, text)
  now, now_text = ms, text
end

return read, add, uncommon, most_entries, latest, set_now
