-- The exact log in one to two bytes a request (algorithm=compact): decides as lua/sliding_log.lua does for the same
-- arrivals, and keeps nothing but their times. lua/decide.lua, which follows this in the script, has the contract of a
-- call; names and ids are not looked at.
--
-- A log is a STRING: its oldest time and the milliseconds from each entry to the next one: 7 bits a byte, highest first,
-- the eighth bit set in all but the last byte of a number, so that it reads from either end. Most of these stand in a
-- ring of bytes. The next to leave and the latest to come stand in front of it, in HEAD bytes that are read and written
-- at each call, so that the ring is touched once in some thirty calls, and a call costs the same however long the log is:
-- each new Lua string costs Redis five cycles a byte. A log whose numbers fit in front has no ring.
--
--   format (1 byte), oldest, newest (6 each, ms), entries (4), when the time to live was set (6, ms),
--   the ring's size, where it begins, how much of it is used (4 each), lengths of next and latest (1 each),
--   next, latest; and from byte HEAD + 1 the ring
--
-- A blocked log has another form, until the block is over:
--
--   format (1 byte), when the block ends (6, ms), how long it was to last (6, ms), oldest, newest, entries, all numbers
--
-- What is stale leaves when something is added: see lua/decide.lua of slots on their way.
--
-- The time to live is set again when half of the slack is used up; for a caller's clock, by which nobody can tell, with
-- each request. Cost in redis.calls, of 1 to 2 us each: TIME, and
-- per log GETRANGE and SETRANGE; GETRANGE alone when nothing has changed.

local call, pcall, format, floor, min, max = redis.call, redis.pcall, string.format, math.floor, math.min, math.max
local byte, char, sub, rep, pack, open = string.byte, string.char, string.sub, string.rep, struct.pack, struct.unpack

local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37
local BLOCKED, BLOCKED_STATE, BLOCKED_BYTES = 2, '>BI6I6I6I6I4', 29
local FRONT = 64  -- bytes of next and latest together
local HEAD = STATE_BYTES + FRONT
local HEAD_LAST = tostring(HEAD - 1)  -- as text: Redis 7.0 writes a number argument as a double and reads it back

local most_entries = 100000

local now, now_text, own_clock

-- Each log's fields are those of the form; found: its front, where that was read before (false: not).

local function state(log)
  return pack(STATE, FORMAT, log.oldest, log.newest, log.used, log.touched, log.size, log.begin, log.filled, #log.next,
    #log.latest) .. log.next .. log.latest
end

-- What is needed rarely, and made only then: Lua makes functions anew at each call.
local read, add
local made
local function rarely()
  if made then
    return made
  end
  local it = {}
  made = it

  -- The number whose last byte stands at `at`, and where the one before it ends.
  local function before(bytes, at)
    local ms, scale = byte(bytes, at), 1
    at = at - 1
    while at > 0 and byte(bytes, at) >= 128 do
      scale = scale * 128
      ms = ms + (byte(bytes, at) - 128) * scale
      at = at - 1
    end
    return ms, at
  end

  -- The bytes of a number.
  function it.number(ms)
    local bytes = char(ms % 128)
    while ms >= 128 do
      ms = floor(ms / 128)
      bytes = char(128 + ms % 128) .. bytes
    end
    return bytes
  end

  -- `length` bytes of what the ring holds, after the first `skipped`.
  local function of_ring(log, skipped, length)
    if length == 0 then
      return ''
    end
    local at = (log.begin + skipped) % log.size
    local bytes = call('GETRANGE', log.key, HEAD + at, HEAD + min(at + length, log.size) - 1)
    if #bytes < length then
      bytes = bytes .. call('GETRANGE', log.key, HEAD, HEAD + length - #bytes - 1)
    end
    return bytes
  end

  -- All numbers leave their places for `latest`.
  local function flatten(log)
    log.latest = log.next .. of_ring(log, 0, log.filled) .. log.latest
    log.next, log.begin, log.filled, log.size = '', 0, 0, 0
  end

  -- `next` has run out.
  function it.refill(log)
    if log.filled == 0 then
      log.next, log.latest = log.latest, ''
      return
    end
    local bytes = of_ring(log, 0, min(log.filled, FRONT / 2))
    local length = #bytes
    while byte(bytes, length) >= 128 do
      length = length - 1
    end
    log.next = sub(bytes, 1, length)
    log.begin, log.filled = (log.begin + length) % log.size, log.filled - length
  end

  -- The front is full: `latest` goes into the ring. Where that is too small, or far too large, the log is written
  -- whole with another one, and the answer is true. An error where there is no memory.
  function it.spill(log)
    local bytes = log.latest
    if log.size == 0 or log.size - log.filled < #bytes or (log.filled + #bytes) * 4 < log.size then
      flatten(log)
      bytes = log.latest
      if #bytes <= FRONT then
        return nil
      end
      -- a size that the allocator has, less what a string needs besides
      local step = 32
      local needed = HEAD + #bytes + 48 + floor(#bytes / 64)
      while needed > step * 8 do
        step = step * 2
      end
      log.size, log.filled = math.ceil(needed / step) * step - HEAD - 16, #bytes
      log.latest, log.touched = '', now
      local set = pcall('SET', log.key, state(log) .. rep('\0', FRONT) .. bytes .. rep('\0', log.size - #bytes), 'PX', log.ttl)
      return set.ok and true or set
    end
    local at = (log.begin + log.filled) % log.size
    local set = pcall('SETRANGE', log.key, HEAD + at, sub(bytes, 1, log.size - at))
    if at + #bytes > log.size and type(set) == 'number' then
      set = pcall('SETRANGE', log.key, HEAD, sub(bytes, log.size - at + 1))
    end
    log.filled, log.latest = log.filled + #bytes, ''
    return type(set) == 'table' and set or nil
  end

  -- Where the entries end that are not after `time`: the latest of them, ms from it to its successor (nil: there is
  -- none), where its number ends in `latest`, and where the numbers behind its successor's begin. nil: all are after it,
  -- and all numbers are in `latest`.
  local function split(log, time)
    for whole = 0, 1 do
      if whole == 1 then
        flatten(log)
      end
      local bytes, entry, at = log.latest, log.newest, #log.latest
      local behind, rest = nil, at + 1
      while entry > time and at > 0 do
        rest = at + 1
        behind, at = before(bytes, at)
        entry = entry - behind
      end
      if entry <= time and (at > 0 or whole == 1) then
        return entry, behind, at, rest
      end
    end
  end

  -- Puts entries in front of newer ones.
  function it.insert(log, time, more)
    local entry, behind, at, rest = split(log, time)
    local same = rep('\0', more - 1)
    if entry then
      log.latest = sub(log.latest, 1, at) .. it.number(time - entry) .. same .. it.number(entry + behind - time)
        .. sub(log.latest, rest)
    else
      log.latest = same .. it.number(log.oldest - time) .. log.latest
      log.oldest = time
    end
  end

  -- Entries further ahead of now than a reservation become entries of now.
  function it.step_back(log, farthest)
    local entry, _, at = split(log, farthest)
    if not entry then
      log.oldest, log.newest, log.latest = now, now, rep('\0', log.used - 1)
      return
    end
    local _, moved = string.gsub(sub(log.latest, at + 1), '[%z\1-\127]', '')
    log.latest, log.newest = sub(log.latest, 1, at), entry
    if entry > now then
      it.insert(log, now, moved)
    else
      log.latest, log.newest = log.latest .. it.number(now - entry) .. rep('\0', moved - 1), now
    end
  end

  -- Takes out up to `most` entries of the time `logged`: of those that came in the same millisecond one is as good as the
  -- other. Where the clock `has_stepped` back since, of the newest time that is not after it: the step has moved the
  -- entries, and all that were as new, to before. False when there is none: they have left already.
  local function take_out(log, logged, has_stepped, most)
    local entry, behind, at, rest = split(log, logged)
    if log.used == 0 or not entry or entry ~= logged and not has_stepped then
      return false
    end
    -- an entry as old as the one before it is a zero that ends no longer number; mostly all are there, side by side
    local bytes, others, gone = log.latest, most - 1, 1
    if others < at and byte(bytes, at - others) < 128 and sub(bytes, at - others + 1, at) == rep('\0', others) then
      at, gone = at - others, most
    end
    while gone < most and at > 0 and byte(bytes, at) == 0 and (at == 1 or byte(bytes, at - 1) < 128) do
      at, gone = at - 1, gone + 1
    end
    if at > 0 then
      local ahead
      ahead, at = before(bytes, at)
      log.latest = sub(bytes, 1, at) .. (behind and it.number(ahead + behind) or '') .. sub(bytes, rest)
      log.newest = behind and log.newest or entry - ahead
    elseif log.filled > 0 or log.next ~= '' then
      flatten(log)  -- the one before stands there
      return take_out(log, logged, has_stepped, most)
    else
      log.oldest, log.latest = entry + (behind or 0), sub(bytes, rest)
    end
    log.used = log.used - gone
    return true
  end

  -- The last thing that is done to a log in a call, where nothing is left of it.
  function it.write(log)
    if log.used == 0 and not log.blocked then
      call('DEL', log.key)
    else
      add(log, nil, 1, 0)
    end
  end

  function it.take_back(log, _, _, logged, taken)
    local blocked = read(log)
    if blocked and blocked ~= true then
      return false
    end
    local cost = log.options.cost
    if cost == 0 or not take_out(log, logged, own_clock and now < taken, cost) then
      return false
    end
    local ttl = log.ttl
    if blocked then
      log.ttl = format('%d', max(tonumber(ttl), log.blocked - now))
    end
    call('PEXPIRE', log.key, log.ttl)  -- a script that has begun to write is not refused for want of memory
    it.write(log)
    log.ttl = ttl
    return true, blocked
  end

  -- The oldest entries leave: so many, and never all.
  function it.drop(log, leaving)
    for _ = 1, leaving do
      local ms, place, bits = 0, 0, nil
      repeat
        place = place + 1
        bits = byte(log.next, place)
        if not bits then
          it.refill(log)
          place, bits = 1, byte(log.next, 1)
        end
        ms = ms * 128 + bits % 128
      until bits < 128
      log.oldest, log.used, log.next = log.oldest + ms, log.used - 1, sub(log.next, place + 1)
    end
  end

  -- A log in its blocked form: true while that lasts.
  function it.read_blocked(log)
    local bytes = call('GETRANGE', log.key, '0', '-1')
    if #bytes < BLOCKED_BYTES then
      return { err = 'WRONGTYPE not a log of algorithm=compact' }
    end
    local _, till, length
    _, till, length, log.oldest, log.newest, log.used = open(BLOCKED_STATE, bytes)
    log.touched, log.size, log.begin, log.filled = 0, 0, 0, 0
    log.next, log.latest = '', sub(bytes, BLOCKED_BYTES + 1)
    if log.used == 0 then
      log.newest = -math.huge
    end
    if till > now then
      log.blocked, log.block_length = till, length
      return true
    end
    log.changed = true
  end

  function it.write_blocked(log)
    flatten(log)
    local set = pcall('SET', log.key, pack(BLOCKED_STATE, BLOCKED, log.blocked, log.block_length, log.oldest, log.newest,
      log.used) .. log.latest, 'PX', log.ttl)
    return not set.ok and set or nil
  end

  function it.block(log)
    add(log, nil, 1, 0)
  end

  function it.unblock(log)
    log.blocked = false
    it.write(log)
  end

  function it.newest(log)
    return log.used > 0 and log.newest or now
  end

  -- The time of the entry that `skipped` others are older than.
  local function arrival(log, skipped)
    local bytes, at, time, read_to = log.next, 1, log.oldest, 0
    for _ = 1, skipped do
      local high = 0
      while true do
        local bits = byte(bytes, at)
        if not bits then
          local length = min(log.filled - read_to, 1024)
          bytes, at = length > 0 and of_ring(log, read_to, length) or log.latest, 1
          read_to = read_to + length
          bits = byte(bytes, at)
        end
        at = at + 1
        if bits < 128 then
          time = time + high + bits
          break
        end
        high = (high + bits - 128) * 128
      end
    end
    return time
  end

  function it.room_at(log, missing)
    return arrival(log, missing - 1) + log.window
  end

  return it
end

-- Made for a caller's clock only.
local latest = ARGV[1] ~= '' and function(log)
  local front = pcall('GETRANGE', log.key, '0', HEAD_LAST)
  log.found = front
  local form = not front.err and byte(front)
  local ahead = log.options and log.options.ahead or 0
  if form == FORMAT and #front >= STATE_BYTES then
    local _, _, newest = open(STATE, front)
    return newest - ahead
  elseif form == BLOCKED and #front >= BLOCKED_BYTES then
    local _, till, length, _, newest, used = open(BLOCKED_STATE, front)
    return max(till - length, used > 0 and newest - ahead or 0)
  end
  return 0
end

read = function(log)
  local key, blocked = log.key, nil
  local front = log.found or pcall('GETRANGE', key, '0', HEAD_LAST)
  log.found, log.changed = false, false
  if front == '' then
    log.newest = nil
  elseif front.err then
    return front
  elseif byte(front) == FORMAT and #front >= STATE_BYTES then
    local _, next_bytes, latest_bytes
    _, log.oldest, log.newest, log.used, log.touched, log.size, log.begin, log.filled, next_bytes, latest_bytes =
      open(STATE, front)
    local latest_at = STATE_BYTES + next_bytes
    log.next, log.latest = sub(front, STATE_BYTES + 1, latest_at), sub(front, latest_at + 1, latest_at + latest_bytes)
  elseif byte(front) == BLOCKED then
    blocked = rarely().read_blocked(log)
    if blocked and blocked ~= true then
      return blocked
    end
  else
    return { err = 'WRONGTYPE not a log of algorithm=compact' }
  end

  local horizon = now - log.window
  if not log.newest or log.newest <= horizon then
    log.changed = blocked and log.used > 0  -- else what is stale stays
    log.oldest, log.newest, log.used, log.touched = now, now, 0, now
    log.size, log.begin, log.filled, log.next, log.latest = 0, 0, 0, '', ''
    log.frees = false
    return blocked
  end
  if log.oldest <= horizon then
    local bytes, place, oldest, left = log.next, 1, log.oldest, 0
    repeat
      local high = 0
      local bits = byte(bytes, place)
      if not bits then
        rarely().refill(log)
        bytes, place = log.next, 1
        bits = byte(bytes, 1)
      end
      while bits >= 128 do
        high = (high + bits - 128) * 128
        place = place + 1
        bits = byte(bytes, place)
      end
      oldest, place, left = oldest + high + bits, place + 1, left + 1
    until oldest > horizon
    log.oldest, log.used, log.next, log.changed = oldest, log.used - left, sub(bytes, place), true
  end
  if log.newest > now then
    local farthest = now + (log.options and log.options.ahead or 0)
    if log.newest > farthest then
      rarely().step_back(log, farthest)
      log.changed = true
    end
  end
  log.frees = log.oldest + log.window
  return blocked
end

add = function(log, _, from, to, at, denied)
  local key, options = log.key, log.options
  local more = to - from + 1
  if options then
    more = more * options.cost
  end
  local longest = denied and log.cap > 0 and max(log.cap, log.used)
  if longest then
    more = min(more, longest)
  end
  if more > 0 then
    local time = at or now
    if log.used == 0 then
      log.oldest, log.newest, log.latest = time, time, more > 1 and rep('\0', more - 1) or ''
    elseif time < log.newest then
      rarely().insert(log, time, more)
    else
      local ms = time - log.newest
      local number = ms < 128 and char(ms) or ms < 16384 and char(128 + floor(ms / 128), ms % 128) or rarely().number(ms)
      log.latest = more > 1 and log.latest .. number .. rep('\0', more - 1) or log.latest .. number
      log.newest = time
    end
    log.used = log.used + more
    if longest and log.used > longest then
      rarely().drop(log, log.used - longest)
    end
    log.frees = log.oldest + log.window
  elseif log.used == 0 and not log.blocked then
    return nil
  end

  if log.blocked then
    return rarely().write_blocked(log)
  end
  if #log.next + #log.latest > FRONT then
    local spilled = rarely().spill(log)
    if spilled then
      return spilled ~= true and spilled or nil
    end
  end
  local set
  if log.size == 0 then
    local lives_on = more == 0 and log.touched > 0 and log.touched <= now
    if lives_on then
      set = pcall('SET', key, state(log), 'KEEPTTL')
    else
      log.touched = now
      set = pcall('SET', key, state(log), 'PX', log.ttl)
    end
    return not set.ok and set or nil
  end
  -- a reservation lives as long as an entry that is made when it is due
  local due = log.touched > now or not own_clock and more > 0
    or (now - log.touched) * 2 >= log.ttl - log.window - (options and options.ahead or 0)
  if due then
    log.touched = now
  end
  set = pcall('SETRANGE', key, '0', state(log))
  if type(set) == 'table' then
    return set
  end
  if due then
    call('PEXPIRE', key, log.ttl)
  end
end
