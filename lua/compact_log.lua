-- The exact log in one to two bytes per request (algorithm=compact): decides as lua/sliding_log.lua does for the same
-- arrivals, but stores only their times; names and ids are ignored. lua/decide.lua has the contract of a call, and of
-- what this file returns.
--
-- A log is a STRING: the time of the oldest entry, and the milliseconds from each entry to the next one, with 7 bits a
-- byte, highest first. The eighth bit is set in all bytes of a number but the last, so numbers can be read from either
-- end. Most numbers are in a ring of bytes. The next to leave and the latest to arrive stand in front of it, in HEAD
-- bytes that every call reads and writes. So about one call in thirty touches the ring, and the cost of a call does not
-- depend on the length of the log: Redis takes five cycles a byte for each new Lua string. If many entries leave, or
-- one far from both ends is needed, whole pieces of the ring are added up, at some 20 ns an entry. An entry before later
-- ones (permits, reservations) moves these out of the ring and back. A log whose numbers fit in front has no ring.
--
--   format (1 byte), oldest, newest (6 each, ms), entries (4), when the time to live was set (6, ms),
--   size of the ring, its beginning, its used bytes (4 each), lengths of next and latest (1 each),
--   next, latest; and from byte HEAD + 1 the ring
--
-- A blocked log has another form until the block is over:
--
--   format (1 byte), end of the block (6, ms), length of the block (6, ms), oldest, newest, entries, all numbers
--
-- Both forms have a second format, of logs with runs: there a number that begins with the byte 128, which none of ms
-- does, is a run: so many more entries of the time of the entry before it. `newest` is in 5 bytes and counts from the
-- oldest, `entries` is in 5 bytes, and the rest is the same. A log has runs from the first request of a cost above three
-- on, until it is empty. A request takes a few bytes then, whatever its cost.
--
-- Contents that this script cannot have written are an error when they are met: a log is not read in full to find them.
-- Stale contents are removed when something is added; lua/decide.lua explains this with migrating hash slots.
--
-- The time to live is set again when half of the slack is used up. With a caller's clock it is set by every request,
-- since `touched` is not a time of this server then. Cost in redis.calls, of 1 to 2 us each: TIME, and per log GETRANGE
-- and SETRANGE; GETRANGE alone if nothing has changed.

local now, _, own_clock, permit_life = ...

local call, pcall, format, floor, min, max = redis.call, redis.pcall, string.format, math.floor, math.min, math.max
local byte, char, sub, rep, pack, open = string.byte, string.char, string.sub, string.rep, struct.pack, struct.unpack

local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37
local BLOCKED, BLOCKED_STATE, BLOCKED_BYTES = 2, '>BI6I6I6I6I4', 29
local WITH_RUNS, STATE_WITH_RUNS = 3, '>BI6I5I5I6I4I4I4BB'
local BLOCKED_WITH_RUNS, BLOCKED_STATE_WITH_RUNS = 4, '>BI6I6I6I5I5'
local SHORTEST_RUN = 3  -- two of them are as short without
local FRONT = 64  -- bytes of next and latest together
local HEAD = STATE_BYTES + FRONT
local HEAD_LAST = tostring(HEAD - 1)  -- as text: Redis 7.0 writes a number argument as a double and reads it back

local most_entries = 1000000000000  -- the largest number of a configuration

local NOT_OURS = 'WRONGTYPE not a log of algorithm=compact'

-- Maximum bytes of a number.
local LONGEST = 7

-- The most that 5 bytes hold, and the most entries of a log: no limit is as large, so it looks emptier to none if older
-- ones leave.
local MOST = 2 ^ 40 - 1

-- Fields of a log: those of the form; has_runs; found: its front, if latest() has read it (else false).

-- ms from the oldest entry to the newest.
local function span(log)
  local ms = log.newest - log.oldest
  return ms <= MOST and ms or error({ err = NOT_OURS })
end

local function state(log)
  if log.has_runs then
    return pack(STATE_WITH_RUNS, WITH_RUNS, log.oldest, span(log), log.used, log.touched, log.size, log.begin, log.filled,
      #log.next, #log.latest) .. log.next .. log.latest
  end
  return pack(STATE, FORMAT, log.oldest, log.newest, log.used, log.touched, log.size, log.begin, log.filled, #log.next,
    #log.latest) .. log.next .. log.latest
end

-- Functions that few calls need, made on demand: Lua makes functions anew at each call.
local read, add
local made
local function uncommon()
  if made then
    return made
  end
  local it = {}
  made = it
  local find = string.find

  -- The number whose last byte is at `at`, and the index of the last byte before it.
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

  -- Numbers that stand for so many more entries of the time of the entry before them.
  function it.same(log, count)
    if count < SHORTEST_RUN or not log.has_runs then
      return rep('\0', count)
    end
    return count <= MOST and '\128' .. it.number(count) or error({ err = NOT_OURS })
  end

  -- `length` bytes of the ring, after the first `skipped`.
  local function of_ring(log, skipped, length)
    if length == 0 then
      return ''
    end
    local at = (log.begin + skipped) % log.size
    local bytes = call('GETRANGE', log.key, HEAD + at, HEAD + min(at + length, log.size) - 1)
    if at + length > log.size then
      bytes = bytes .. call('GETRANGE', log.key, HEAD, HEAD + at + length - log.size - 1)
    end
    return #bytes == length and bytes or error({ err = NOT_OURS })
  end

  -- The number that begins at `at`, and the index of the next one.
  local function number_at(bytes, at)
    local high, bits = 0, byte(bytes, at)
    while bits >= 128 do
      high, at = (high + bits - 128) * 128, at + 1
      bits = byte(bytes, at)
    end
    return high + bits, at + 1
  end

  local function sum(bytes)
    local total = 0
    for at = 1, #bytes - 15, 16 do
      local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p = byte(bytes, at, at + 15)
      total = total + a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p
    end
    for at = #bytes - #bytes % 16 + 1, #bytes do
      total = total + byte(bytes, at)
    end
    return total
  end

  -- The sum of complete numbers, and how many entries they stand for.
  local function total(bytes, has_runs)
    if not find(bytes, '[\128-\255]') then
      return sum(bytes), #bytes
    end
    local ms, entries, high, is_run = 0, 0, 0, false
    for at = 1, #bytes, 64 do
      local some = { byte(bytes, at, at + 63) }
      for i = 1, #some do
        local bits = some[i]
        if bits >= 128 then
          is_run = is_run or has_runs and high == 0 and bits == 128
          high = (high + bits - 128) * 128
        elseif is_run then
          entries, high, is_run = entries + high + bits, 0, false
        else
          ms, entries, high = ms + high + bits, entries + 1, 0
        end
      end
    end
    return ms, entries
  end

  -- Passes numbers in the direction of the walk, many at once if possible. False: the walk has ended.
  local function pass(walk, bytes)
    local forward, time, size = walk.forward, walk.time, #bytes
    if size > 16 then
      local ms, count = total(bytes, walk.has_runs)
      local entry = forward and walk.entry + ms or walk.entry - ms
      if walk.passed + count <= walk.most and forward == (entry <= time) then
        walk.entry, walk.passed, walk.bytes = entry, walk.passed + count, walk.bytes + size
        return true
      end
      local middle = floor(size / 2)
      while byte(bytes, middle) >= 128 do
        middle = middle + 1
      end
      if middle == size then
        error({ err = NOT_OURS })  -- no number is that long
      end
      local first, second = sub(bytes, 1, middle), sub(bytes, middle + 1)
      if forward then
        return pass(walk, first) and pass(walk, second)
      end
      return pass(walk, second) and pass(walk, first)
    end
    local at = forward and 1 or size
    while at > 0 and at <= size do
      if walk.passed >= walk.most or forward == (walk.entry > time) then
        return false
      end
      local ms, past = (forward and number_at or before)(bytes, at)
      if walk.has_runs and byte(bytes, forward and at or past + 1) == 128 then
        if ms > walk.most - walk.passed then
          walk.passed, walk.within = walk.most, walk.most - walk.passed
          return false
        end
        walk.passed = walk.passed + ms
      else
        walk.passed, walk.entry = walk.passed + 1, forward and walk.entry + ms or walk.entry - ms
      end
      walk.bytes, at = walk.bytes + math.abs(past - at), past
    end
    return true
  end

  -- Walks from the oldest entry forward while it is not after `time`, or from the newest back while it is, over at most
  -- `most` entries. Returns the entry where that ends, the count of passed entries, the bytes of their numbers, and how
  -- many entries more were passed of a run where it ends.
  local function walk(log, forward, most, time)
    local entry = forward and log.oldest or log.newest
    local it = { forward = forward, most = most, time = time, entry = entry, passed = 0, bytes = 0, within = 0,
      has_runs = log.has_runs }
    local goes_on = pass(it, forward and log.next or log.latest)
    local done, size = 0, FRONT
    while goes_on and done < log.filled do
      local length = min(size, log.filled - done)
      local bytes = of_ring(log, forward and done or log.filled - done - length, length)
      if forward then
        bytes = string.match(bytes, '^.*[%z\1-\127]')
      elseif done + length < log.filled then
        bytes = sub(bytes, find(bytes, '[%z\1-\127]') + 1)
      end
      if #bytes == 0 then
        error({ err = NOT_OURS })  -- no number is that long
      end
      done, size = done + #bytes, min(4 * size, 4096)
      goes_on = pass(it, bytes)
    end
    if goes_on then
      pass(it, forward and log.latest or log.next)
    end
    return it
  end

  -- Moves all numbers into `latest`.
  local function flatten(log)
    log.latest = log.next .. of_ring(log, 0, log.filled) .. log.latest
    log.next, log.begin, log.filled, log.size = '', 0, 0, 0
  end

  -- Moves numbers from the end of the ring into `latest`, until it has so many bytes or all numbers.
  local function pull(log, bytes)
    local length = bytes - #log.latest + LONGEST
    if length >= log.filled then
      return flatten(log)
    end
    local tail = of_ring(log, log.filled - length, length)
    local cut = find(tail, '[%z\1-\127]') or error({ err = NOT_OURS })  -- no number is that long
    tail = sub(tail, cut + 1)
    log.latest, log.filled = tail .. log.latest, log.filled - #tail
  end

  -- Fills `next`, which is empty, from the ring.
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

  -- Moves `latest` into the ring, since the front is full. If the ring is too small or far too large, writes the whole
  -- log with a new one and returns true. Returns an error if there is no memory.
  function it.spill(log)
    local bytes = log.latest
    if log.size == 0 or log.size - log.filled < #bytes or (log.filled + #bytes) * 4 < log.size then
      flatten(log)
      bytes = log.latest
      if #bytes <= FRONT then
        return nil
      end
      -- an allocation size, less the overhead of a string
      local step = 32
      local needed = HEAD + #bytes + 48 + floor(#bytes / 64)
      while needed > step * 8 do
        step = step * 2
      end
      log.size, log.filled = math.ceil(needed / step) * step - HEAD - 16, #bytes
      log.latest, log.touched = '', now
      local whole = state(log) .. rep('\0', FRONT) .. bytes .. rep('\0', log.size - #bytes)
      local set = pcall('SET', log.key, whole, 'PX', log.ttl)
      return set.ok and true or set
    end
    of_ring(log, log.size - log.begin - 1, 1)  -- an error if the string ends before its ring does
    local at = (log.begin + log.filled) % log.size
    local set = pcall('SETRANGE', log.key, HEAD + at, sub(bytes, 1, log.size - at))
    if at + #bytes > log.size and type(set) == 'number' then
      set = pcall('SETRANGE', log.key, HEAD, sub(bytes, log.size - at + 1))
    end
    log.filled, log.latest = log.filled + #bytes, ''
    return type(set) == 'table' and set or nil
  end

  -- Finds the latest entry that is not after `time`. Returns its time, ms from it to its successor (nil: it has none),
  -- the index in `latest` where its number ends, the index after its successor's number, and the number of entries
  -- after it. nil: all entries are after `time`, and all numbers are in `latest`. `more`: the number of bytes that
  -- `latest` has before that index, unless it has all numbers.
  local function split(log, time, more)
    local found = walk(log, false, math.huge, time)
    if found.entry < log.oldest or found.entry > time and found.entry ~= log.oldest then
      error({ err = NOT_OURS })
    elseif found.bytes + more > #log.latest then
      pull(log, found.bytes + more)
    end
    local at = #log.latest - found.bytes
    if found.entry > time then
      return nil
    elseif found.passed == 0 then
      return found.entry, nil, at, at + 1, 0
    end
    local behind, rest = number_at(log.latest, at + 1)
    return found.entry, behind, at, rest, found.passed
  end

  -- Inserts entries before newer ones.
  function it.insert(log, time, more)
    local entry, behind, at, rest = split(log, time, 0)
    local same = it.same(log, more - 1)
    if entry then
      log.latest = sub(log.latest, 1, at) .. it.number(time - entry) .. same .. it.number(entry + behind - time)
        .. sub(log.latest, rest)
    else
      log.latest = same .. it.number(log.oldest - time) .. log.latest
      log.oldest = time
    end
  end

  -- The latest time that a reservation or a permit may have.
  function it.farthest(log)
    return now + max(log.options and log.options.ahead or 0, permit_life(log.window))
  end

  -- Entries further ahead of now than reservations and permits may be become entries of now.
  function it.step_back(log, farthest)
    local entry, at, moved, _
    if log.oldest <= farthest then
      entry, _, at, _, moved = split(log, farthest, 0)
    else
      if not log.has_runs then
        of_ring(log, 0, log.filled)  -- an error if it has fewer entries than it says
      end
      log.next, log.begin, log.filled, log.size = '', 0, 0, 0
    end
    if not entry then
      log.oldest, log.newest, log.latest = now, now, it.same(log, log.used - 1)
      return
    end
    log.latest, log.newest = sub(log.latest, 1, at), entry
    if entry > now then
      it.insert(log, now, moved)
    else
      log.latest, log.newest = log.latest .. it.number(now - entry) .. it.same(log, moved - 1), now
    end
  end

  -- Removes up to `most` entries of the time `logged`; entries of the same millisecond are equal. If the clock
  -- `has_stepped` back since, removes entries of the newest time that is not after `logged`: the step has moved the
  -- entries, and all others as new, to an earlier time. False: there are none, they have left already.
  local function take_out(log, logged, has_stepped, most)
    local entry, behind, at, rest = split(log, logged, (log.has_runs and min(most, FRONT) or most) + LONGEST)
    if log.used == 0 or not entry or entry ~= logged and not has_stepped then
      return false
    end
    -- an entry of the same time as the one before it is a zero byte that ends no longer number, or in a run; usually all
    -- are adjacent
    local bytes, others, gone, ahead, kept = log.latest, most - 1, 0, 0, ''
    if not log.has_runs and others <= at and (others == at or byte(bytes, at - others) < 128)
        and sub(bytes, at - others + 1, at) == rep('\0', others) then
      at, gone = at - others, others
    end
    while gone < most and ahead == 0 and at > 0 do
      local number, past = before(bytes, at)
      if log.has_runs and byte(bytes, past + 1) == 128 then
        local of_run = min(number, most - gone)
        gone, kept = gone + of_run, it.same(log, number - of_run)
      else
        gone, ahead = gone + 1, number
      end
      at = past
    end
    if gone == most or ahead > 0 then
      log.latest = sub(bytes, 1, at) .. kept .. (behind and it.number(ahead + behind) or '') .. sub(bytes, rest)
      log.newest = behind and log.newest or entry - ahead
    elseif log.filled > 0 or log.next ~= '' then
      flatten(log)  -- its predecessor is there
      return take_out(log, logged, has_stepped, most)
    else
      gone = gone + 1
      log.oldest, log.latest = entry + (behind or 0), sub(bytes, rest)
    end
    if gone > log.used then
      error({ err = NOT_OURS })
    end
    log.used = log.used - gone
    return true
  end

  function it.permit(log, _, permits, at)
    local cost = log.options.cost
    log.options.cost = permits * cost
    local failed = add(log, nil, 1, 1, at)
    log.options.cost = cost  -- other logs may share these options
    return failed
  end

  -- Writes a log, or deletes it if nothing is left. Nothing else touches the log in this call.
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
    call('PEXPIRE', log.key, log.ttl)  -- Redis does not refuse a script for lack of memory once it has written
    it.write(log)
    log.ttl = ttl
    return true, blocked
  end

  function it.owe(log, more, logged, _, ended)
    local blocked = read(log)
    if blocked and blocked ~= true then
      error(blocked)
    end
    local at = ended or min(logged, now)
    if at <= now - log.window then
      return false
    elseif ended and log.used > 0 then
      at = max(at, log.newest)  -- behind all others, so the price does not depend on what came since
    end
    local options, ttl = log.options, log.ttl
    log.options = { cost = more, ahead = options.ahead }
    if blocked then
      log.ttl = format('%d', max(tonumber(ttl), log.blocked - now))
    end
    local failed = add(log, nil, 1, 1, at)
    log.options, log.ttl = options, ttl
    return failed and error(failed) or true
  end

  -- Removes the oldest entries: `most`, or those that are not after `time`; never all of them.
  function it.drop(log, most, time)
    local found = walk(log, true, most, time)
    if found.passed >= log.used or found.entry > log.newest or found.entry <= time and found.passed < most then
      error({ err = NOT_OURS })
    end
    log.oldest, log.used = found.entry, log.used - found.passed
    local of_next, of_rest = found.bytes, found.bytes - #log.next
    log.next = sub(log.next, of_next + 1)
    if of_rest > log.filled then
      log.latest, log.filled = sub(log.latest, of_rest - log.filled + 1), 0
    elseif of_rest > 0 then
      log.begin, log.filled = (log.begin + of_rest) % log.size, log.filled - of_rest
    end
    if found.within > 0 then
      if log.next == '' then
        it.refill(log)
      end
      local run, past = number_at(log.next, 1)
      if run <= found.within then
        error({ err = NOT_OURS })
      end
      log.next = it.same(log, run - found.within) .. sub(log.next, past)
    end
  end

  -- Reads a log in its blocked form. True: the block lasts.
  function it.read_blocked(log)
    local bytes = call('GETRANGE', log.key, '0', '-1')
    if #bytes < BLOCKED_BYTES then
      return { err = NOT_OURS }
    end
    local _, till, length
    log.has_runs = byte(bytes) == BLOCKED_WITH_RUNS
    _, till, length, log.oldest, log.newest, log.used =
      open(log.has_runs and BLOCKED_STATE_WITH_RUNS or BLOCKED_STATE, bytes)
    if log.has_runs then
      log.newest = log.oldest + log.newest
    end
    local numbers = max(log.used - 1, 0)
    local fewest = log.has_runs and min(numbers, 1) or numbers
    if #bytes - BLOCKED_BYTES < fewest or #bytes - BLOCKED_BYTES > numbers * LONGEST
        or log.used > 0 and log.oldest > log.newest then
      return { err = NOT_OURS }
    end
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
    local head
    if log.has_runs then
      head = pack(BLOCKED_STATE_WITH_RUNS, BLOCKED_WITH_RUNS, log.blocked, log.block_length, log.oldest, span(log), log.used)
    else
      head = pack(BLOCKED_STATE, BLOCKED, log.blocked, log.block_length, log.oldest, log.newest, log.used)
    end
    local set = pcall('SET', log.key, head .. log.latest, 'PX', log.ttl)
    return not set.ok and set or nil
  end

  function it.block(log)
    local failed = add(log, nil, 1, 0)
    if failed then
      error(failed)
    end
  end

  function it.unblock(log)
    log.blocked = false
    it.write(log)
  end

  function it.newest(log)
    return log.used > 0 and log.newest or now
  end

  -- The time of the entry after the `skipped` oldest ones, found from the nearer end.
  local function arrival(log, skipped)
    if skipped < log.used / 2 then
      local time = walk(log, true, skipped, math.huge).entry
      return time <= log.newest and time or error({ err = NOT_OURS })
    end
    local time = walk(log, false, log.used - 1 - skipped, -math.huge).entry
    return time >= log.oldest and time or error({ err = NOT_OURS })
  end

  function it.room_at(log, missing)
    return arrival(log, missing - 1) + log.window
  end

  return it
end

-- For a caller's clock only.
local latest = not own_clock and function(log)
  local front = pcall('GETRANGE', log.key, '0', HEAD_LAST)
  log.found = front
  local form = not front.err and byte(front)
  local ahead = log.options and log.options.ahead or 0
  if (form == FORMAT or form == WITH_RUNS) and #front >= STATE_BYTES then
    local _, oldest, newest = open(form == FORMAT and STATE or STATE_WITH_RUNS, front)
    return (form == FORMAT and newest or oldest + newest) - ahead
  elseif (form == BLOCKED or form == BLOCKED_WITH_RUNS) and #front >= BLOCKED_BYTES then
    local _, till, length, oldest, newest, used = open(form == BLOCKED and BLOCKED_STATE or BLOCKED_STATE_WITH_RUNS, front)
    newest = form == BLOCKED and newest or oldest + newest
    return max(till - length, used > 0 and newest - ahead or 0)
  end
  return 0
end

read = function(log)
  local key, blocked = log.key, nil
  local front = log.found or pcall('GETRANGE', key, '0', HEAD_LAST)
  log.found, log.changed = false, false
  local form = not front.err and byte(front)
  local has_runs = false
  if front == '' then
    log.newest = nil
  elseif front.err then
    return front
  elseif (form == FORMAT or form == WITH_RUNS) and #front >= STATE_BYTES then
    local _, next_bytes, latest_bytes
    has_runs = form == WITH_RUNS
    _, log.oldest, log.newest, log.used, log.touched, log.size, log.begin, log.filled, next_bytes, latest_bytes =
      open(has_runs and STATE_WITH_RUNS or STATE, front)
    if has_runs then
      log.newest = log.oldest + log.newest
    end
    local latest_at = STATE_BYTES + next_bytes
    log.next, log.latest = sub(front, STATE_BYTES + 1, latest_at), sub(front, latest_at + 1, latest_at + latest_bytes)
    local numbers, bytes = log.used - 1, next_bytes + log.filled + latest_bytes
    if bytes < (has_runs and min(numbers, 1) or numbers) or bytes > numbers * LONGEST or log.oldest > log.newest
        or log.filled > log.size or latest_at + latest_bytes > #front then
      return { err = NOT_OURS }
    end
    log.has_runs = has_runs
  elseif form == BLOCKED or form == BLOCKED_WITH_RUNS then
    blocked = uncommon().read_blocked(log)
    if blocked and blocked ~= true then
      return blocked
    end
    has_runs = log.has_runs
  else
    return { err = NOT_OURS }
  end

  local horizon = now - log.window
  if not log.newest or log.newest <= horizon then
    log.changed = blocked and log.used > 0  -- without a block, stale contents stay
    log.oldest, log.newest, log.used, log.touched = now, now, 0, now
    log.size, log.begin, log.filled, log.next, log.latest = 0, 0, 0, '', ''
    log.frees, log.has_runs = false, false
    return blocked
  end
  if log.oldest <= horizon then
    local bytes, place, oldest, left, passed = log.next, 1, log.oldest, 0, 0
    repeat
      local high = 0
      local bits = byte(bytes, place)
      if not bits then
        if passed >= FRONT then
          log.oldest, log.used, log.next = oldest, log.used - left, ''
          uncommon().drop(log, math.huge, horizon)
          bytes, place, oldest, left = log.next, 1, log.oldest, 0
          break
        end
        uncommon().refill(log)
        bytes, place = log.next, 1
        bits = byte(bytes, 1)
      end
      local is_run = has_runs and bits == 128
      while bits >= 128 do
        high = (high + bits - 128) * 128
        place = place + 1
        bits = byte(bytes, place)
      end
      if is_run then
        left = left + high + bits
      else
        oldest, left = oldest + high + bits, left + 1
      end
      place, passed = place + 1, passed + 1
    until oldest > horizon
    if oldest > log.newest or left >= log.used then
      return { err = NOT_OURS }
    end
    log.oldest, log.used, log.next, log.changed = oldest, log.used - left, sub(bytes, place), true
  end
  if log.newest > now then
    local farthest = uncommon().farthest(log)
    if log.newest > farthest then
      uncommon().step_back(log, farthest)
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
  local longest = denied and log.cap > 0 and min(max(log.cap, log.used), MOST) or MOST
  if more > longest then
    more = longest
  end
  if more > 0 then
    local time = at or now
    log.has_runs = log.has_runs or options and options.cost > SHORTEST_RUN  -- the version before does without this line
    local same = more > 1 and (log.has_runs and uncommon().same(log, more - 1) or rep('\0', more - 1)) or ''
    if log.used == 0 then
      log.oldest, log.newest, log.latest = time, time, same
    elseif time < log.newest then
      uncommon().insert(log, time, more)
    else
      local ms = time - log.newest
      local number = ms < 128 and char(ms) or ms < 16384 and char(128 + floor(ms / 128), ms % 128) or uncommon().number(ms)
      log.latest = log.latest .. number .. same
      log.newest = time
    end
    log.used = log.used + more
    if log.used > longest then
      uncommon().drop(log, log.used - longest, math.huge)
    end
    log.frees = log.oldest + log.window
  elseif log.used == 0 and not log.blocked then
    return nil
  end

  if log.blocked then
    return uncommon().write_blocked(log)
  end
  if #log.next + #log.latest > FRONT then
    local spilled = uncommon().spill(log)
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
  -- a reservation lives as long as an entry made at its time
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

local set_now = not own_clock and function(ms)
  now = ms
end

return read, add, uncommon, most_entries, latest, set_now
