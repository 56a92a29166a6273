-- The exact log in one to two bytes a request (algorithm=compact): decides as lua/sliding_log.lua does for the same
-- arrivals, and keeps nothing but their times.
--
-- KEYS   the logs of all groups: STRINGs
-- ARGV   as for lua/sliding_log.lua; names and ids are not looked at
-- Reply  as of lua/sliding_log.lua, and at the end of each group now (ms)
-- or
-- KEYS   logs that a request is taken back from
-- ARGV   'take back', when it was logged: what its reply told last
-- Reply  how many entries left
--
-- A log is its oldest time and the milliseconds from each entry to the next one: 7 bits a byte, highest first, the
-- eighth bit set in all but the last byte of a number, so that it reads from either end. Most of these stand in a ring
-- of bytes. The next to leave and the latest to come stand in front of it, in HEAD bytes that are read and written at
-- each call, so that the ring is touched once in some thirty calls, and a call costs the same however long the log is:
-- each new Lua string costs Redis five cycles a byte. A log whose numbers fit in front has no ring.
--
--   format (1 byte), oldest, newest (6 each, ms), entries (4), when the time to live was set (6, ms),
--   the ring's size, where it begins, how much of it is used (4 each), lengths of next and latest (1 each),
--   next, latest; and from byte HEAD + 1 the ring
--
-- The time to live is set again when half of the slack is used up. Cost in redis.calls, of 1 to 2 us each: TIME, and
-- per log GETRANGE and SETRANGE; GETRANGE alone when nothing has changed.

local call, pcall, floor, min, max = redis.call, redis.pcall, math.floor, math.min, math.max
local byte, char, sub, rep, pack, open = string.byte, string.char, string.sub, string.rep, struct.pack, struct.unpack

local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37
local FRONT = 64  -- bytes of next and latest together
local HEAD = STATE_BYTES + FRONT
local HEAD_LAST = tostring(HEAD - 1)  -- as text: Redis 7.0 writes a number argument as a double and reads it back

local now

local function state(log)
  return pack(STATE, FORMAT, log.oldest, log.newest, log.count, log.touched, log.size, log.begin, log.used, #log.next,
    #log.latest) .. log.next .. log.latest
end

-- Fills `log` with what stands at `key`: true. False: there is none. An error when it cannot be read.
local function read(key, log)
  local front = pcall('GETRANGE', key, '0', HEAD_LAST)
  if front == '' then
    return false
  elseif front.err then
    return front
  elseif byte(front) ~= FORMAT or #front < STATE_BYTES then
    return { err = 'WRONGTYPE not a log of algorithm=compact' }
  end
  local _, next_bytes, latest_bytes
  _, log.oldest, log.newest, log.count, log.touched, log.size, log.begin, log.used, next_bytes, latest_bytes =
    open(STATE, front)
  local latest_at = STATE_BYTES + next_bytes
  log.next, log.latest = sub(front, STATE_BYTES + 1, latest_at), sub(front, latest_at + 1, latest_at + latest_bytes)
  return true
end

-- What is needed rarely, and made only then: Lua makes functions anew at each call.
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
  local function of_ring(key, log, skipped, length)
    if length == 0 then
      return ''
    end
    local at = (log.begin + skipped) % log.size
    local bytes = call('GETRANGE', key, HEAD + at, HEAD + min(at + length, log.size) - 1)
    if #bytes < length then
      bytes = bytes .. call('GETRANGE', key, HEAD, HEAD + length - #bytes - 1)
    end
    return bytes
  end

  -- All numbers leave their places for `latest`.
  local function flatten(key, log)
    log.latest = log.next .. of_ring(key, log, 0, log.used) .. log.latest
    log.next, log.begin, log.used, log.size = '', 0, 0, 0
  end

  -- `next` has run out.
  function it.refill(key, log)
    if log.used == 0 then
      log.next, log.latest = log.latest, ''
      return
    end
    local bytes = of_ring(key, log, 0, min(log.used, FRONT / 2))
    local length = #bytes
    while byte(bytes, length) >= 128 do
      length = length - 1
    end
    log.next = sub(bytes, 1, length)
    log.begin, log.used = (log.begin + length) % log.size, log.used - length
  end

  -- The front is full: `latest` goes into the ring. Where that is too small, or far too large, the log is written
  -- whole with another one, and the answer is true. An error where there is no memory.
  function it.spill(key, log)
    local bytes = log.latest
    if log.size - log.used < #bytes or (log.used + #bytes) * 4 < log.size then
      flatten(key, log)
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
      log.size, log.used = math.ceil(needed / step) * step - HEAD - 16, #bytes
      log.latest, log.touched = '', now
      local set = pcall('SET', key, state(log) .. rep('\0', FRONT) .. bytes .. rep('\0', log.size - #bytes), 'PX', log.ttl)
      return set.ok and true or set
    end
    local at = (log.begin + log.used) % log.size
    local set = pcall('SETRANGE', key, HEAD + at, sub(bytes, 1, log.size - at))
    if at + #bytes > log.size and type(set) == 'number' then
      set = pcall('SETRANGE', key, HEAD, sub(bytes, log.size - at + 1))
    end
    log.used, log.latest = log.used + #bytes, ''
    return type(set) == 'table' and set or nil
  end

  -- The clock is behind the log: entries ahead of now become entries of now.
  function it.step_back(key, log)
    for whole = 0, 1 do
      if whole == 1 then
        flatten(key, log)
      end
      if whole == 1 and log.oldest >= now then
        log.oldest, log.newest, log.latest = now, now, rep('\0', log.count - 1)
        return
      end
      local bytes, newest, ahead, at = log.latest, log.newest, 0, #log.latest
      while newest > now and at > 0 do
        local ms
        ms, at = before(bytes, at)
        newest = newest - ms
        ahead = ahead + 1
      end
      if newest <= now then
        log.latest = sub(bytes, 1, at) .. it.number(now - newest) .. rep('\0', ahead - 1)
        log.newest = now
        return
      end
    end
  end

  -- Takes out the newest entry that is not after `logged`. A clock that stepped back since has moved the entry, and all
  -- that was as new, to before; of those that came in the same millisecond one is as good as the other. False when all
  -- are newer: the entry has left already.
  function it.take_out(key, log, logged)
    for whole = 0, 1 do
      if whole == 1 then
        flatten(key, log)
      end
      local bytes, entry, at = log.latest, log.newest, #log.latest
      local behind, rest = nil, at + 1  -- ms to the entry's successor; where the number after that one's begins
      while entry > logged and at > 0 do
        rest = at + 1
        behind, at = before(bytes, at)
        entry = entry - behind
      end
      if entry <= logged and at > 0 then
        local ahead
        ahead, at = before(bytes, at)
        log.latest = sub(bytes, 1, at) .. (behind and it.number(ahead + behind) or '') .. sub(bytes, rest)
        log.newest = behind and log.newest or entry - ahead
        log.count = log.count - 1
        return true
      elseif whole == 1 and entry <= logged then
        log.oldest, log.latest, log.count = entry + (behind or 0), sub(bytes, rest), log.count - 1
        return true
      end
    end
    return false
  end

  -- The time of the entry that `skipped` others are older than.
  function it.arrival(key, log, skipped)
    local bytes, at, time, read_to = log.next, 1, log.oldest, 0
    for _ = 1, skipped do
      local high = 0
      while true do
        local bits = byte(bytes, at)
        if not bits then
          local length = min(log.used - read_to, 1024)
          bytes, at = length > 0 and of_ring(key, log, read_to, length) or log.latest, 1
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

  return it
end

-- Writes the log with `more` entries of now. An error where there is no memory, and nothing is written then.
local function store(key, log, more)
  if more > 0 then
    local same = more > 1 and rep('\0', more - 1) or ''
    if log.count == 0 then
      log.oldest, log.latest = now, same
    else
      local ms = now - log.newest
      local number = ms < 128 and char(ms) or ms < 16384 and char(128 + floor(ms / 128), ms % 128) or rarely().number(ms)
      log.latest = log.latest .. number .. same
    end
    log.newest, log.count = now, log.count + more
  elseif log.count == 0 then
    call('DEL', key)
    return nil
  end

  if #log.next + #log.latest > FRONT then
    local spilled = rarely().spill(key, log)
    if spilled then
      return spilled ~= true and spilled or nil
    end
  end
  local set
  if log.size == 0 then
    log.touched = now
    set = pcall('SET', key, state(log), 'PX', log.ttl)
    return not set.ok and set or nil
  end
  local due = log.touched > now or (now - log.touched) * 2 >= log.ttl - log.window
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

if ARGV[1] == 'take back' then
  now = 0  -- the time to live is not what it should be: the next request sets it
  local removed = 0
  for _, key in ipairs(KEYS) do
    local log = {}
    if read(key, log) == true and rarely().take_out(key, log, tonumber(ARGV[2])) then
      -- a script that has begun to write is not refused for want of memory
      log.window, log.ttl = 0, call('PTTL', key)
      call('PEXPIRE', key, log.ttl)
      store(key, log, 0)
      removed = removed + 1
    end
  end
  return removed
end

local now_text = ARGV[1]
if now_text == '' then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
else
  now = tonumber(now_text)
end

-- of an argument's text: most are the same in all groups
local number = setmetatable({}, {
  __index = function(numbers, text)
    local value = tonumber(text)
    numbers[text] = value
    return value
  end
})
local asked = {}   -- the group's logs; tables that every group uses again
local replies = {}
local before = 0  -- keys of the groups before
local at = 2      -- where the group's arguments begin

while before < #KEYS do
  local logs, requests = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local reply = { 0, 0, 0, 0 }
  local admitted = requests
  local failed = nil

  at = at + 2 + requests
  for i = 1, logs do
    local key = KEYS[before + i]
    local limit, window, cap, ttl, named = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
    limit, window, cap = number[limit], number[window], number[cap]
    at = at + 5 + (named == '1' and requests or 0)

    local log = asked[i] or {}
    local found = not failed and read(key, log)
    if found and found ~= true then
      failed = found
    end
    if not failed then
      local horizon = now - window
      log.changed = false
      if not found or log.newest <= horizon then
        log.changed = found
        log.oldest, log.newest, log.count, log.touched = now, now, 0, now
        log.size, log.begin, log.used, log.next, log.latest = 0, 0, 0, '', ''
      else
        local over = cap > 0 and log.count - cap or 0
        if log.oldest <= horizon or over > 0 then
          local bytes, place, oldest, left = log.next, 1, log.oldest, 0
          repeat
            local high = 0
            local bits = byte(bytes, place)
            if not bits then
              rarely().refill(key, log)
              bytes, place = log.next, 1
              bits = byte(bytes, 1)
            end
            while bits >= 128 do
              high = (high + bits - 128) * 128
              place = place + 1
              bits = byte(bytes, place)
            end
            oldest, place, left = oldest + high + bits, place + 1, left + 1
          until oldest > horizon and left >= over
          log.oldest, log.count, log.next, log.changed = oldest, log.count - left, sub(bytes, place), true
        end
        if log.newest > now then
          rarely().step_back(key, log)
          log.changed = true
        end
      end
      log.limit, log.window, log.ttl = limit, window, ttl
      asked[i] = log
      if limit - log.count < admitted then
        admitted = max(limit - log.count, 0)
      end
    end
  end

  -- add, and tell
  for i = 1, failed and 0 or logs do
    local key, log = KEYS[before + i], asked[i]
    local limit, window = log.limit, log.window
    local room = limit - log.count
    local reset = log.count > 0 and log.oldest + window - now or window

    local retry = 0
    if admitted < requests and room <= admitted then
      if limit < 1 then
        retry = -1
      elseif room < 0 then
        retry = rarely().arrival(key, log, -room) + window - now
      else
        retry = reset
      end
    end
    if admitted > 0 or log.changed then
      failed = store(key, log, admitted)
      if failed then
        break  -- no memory: the first log already refuses
      end
    end
    reply[3 * i - 1], reply[3 * i], reply[3 * i + 1] = max(room - admitted, 0), reset, retry
  end

  reply[1], reply[3 * logs + 2] = admitted, now
  replies[#replies + 1] = failed or reply
  before = before + logs
end

return replies
