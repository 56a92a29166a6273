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
--   format (1 byte), oldest, newest (6 each, ms), entries (4), touched: when the time to live was set (6, ms),
--   size of the ring, its beginning, its used bytes (4 each), lengths of next and latest (1 each),
--   next, latest; and from byte HEAD + 1 the ring
--
-- A blocked log has another form until the block is over:
--
--   format (1 byte), end of the block (6, ms), length of the block (6, ms), oldest, newest, entries, all numbers
--
-- Each form has a second format, for logs with runs. A number of milliseconds never begins with the byte 128. There, a
-- number that does is a run: it stands for so many more entries with the time of the entry before it. `newest` is in 5
-- bytes and counts from the oldest, `entries` is in 5 bytes, and the rest is the same. A log gets this format with the
-- first request of a cost above three, or when an entry is taken out, and keeps it until it is empty. A request then
-- takes a few bytes, whatever its cost.
--
-- If an entry is taken out of the ring, no others are moved. A byte or two of it are left. They are made to stand for
-- nothing: as zeros in front of the number of a run, or as a run of no entries in front of another number. The same
-- is done with the bytes of entries that leave a blocked log, which has no ring and is changed in place. A run of no
-- entries and the number behind it have at most LONGEST bytes together.
--
-- Behind the ring may be marks, one of STEP bytes of it: how many bytes behind its place the first number begins, and the
-- time of the entry before that number. They tell where the entries of a time are, so that one which is taken out needs
-- no walk over those since. The next version writes them; this one uses them, and clears those of bytes that it changes.
-- A mark counts if its place is in the ring and its time after those in front of the ring, and not after the newest one:
-- the mark of a place that was written over tells a time that has left.
--
-- Contents that this script cannot have written are an error when they are met: a log is not read in full to find them.
-- Stale contents are removed when something is added; lua/decide.lua explains this with migrating hash slots.
--
-- The time to live is set again when half of the slack is used up. With a caller's clock it is set by every request,
-- since `touched` is then not a time of this server. Cost in redis.calls, of 1 to 2 us each: TIME, and per log GETRANGE
-- and SETRANGE; GETRANGE alone if nothing has changed.

local now, _, own_clock, permit_life = ...

local call, pcall, format = redis.call, redis.pcall, string.format
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local byte, char, sub, rep, pack, open = string.byte, string.char, string.sub, string.rep, struct.pack, struct.unpack

local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37
local BLOCKED, BLOCKED_STATE, BLOCKED_BYTES = 2, '>BI6I6I6I6I4', 29
local WITH_RUNS, STATE_WITH_RUNS = 3, '>BI6I5I5I6I4I4I4BB'
local BLOCKED_WITH_RUNS, BLOCKED_STATE_WITH_RUNS = 4, '>BI6I6I6I5I5'
local SHORTEST_RUN = 3  -- entries: for fewer, their numbers take no more bytes
local FRONT = 64  -- bytes of next and latest together
local HEAD = STATE_BYTES + FRONT
local HEAD_LAST = tostring(HEAD - 1)  -- as text: Redis 7.0 writes a number argument as a double and reads it back

local NOT_OURS = 'WRONGTYPE not a log of algorithm=compact'

-- Maximum bytes of a number; and of one with bytes that stand for nothing, since the version before may add a byte to it.
local LONGEST, ROOMY = 7, 6
local NEAR = 12  -- bytes on both sides of a number that are tried first
-- Marks: bytes of the ring from one to the next; the time and the offset of one; what is read at once.
local STEP, MARK, MARK_BYTES, MARKS = 1024, '>I6B', 7, 16

-- Fields of a log: those of the form; has_runs; found: its front, if latest() has read it (else false).

-- ms from the oldest entry to the newest.
local function span(log)
  local ms = log.newest - log.oldest
  return ms <= MOST_OF_LOG and ms or error({ err = NOT_OURS })
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
  local places_left = {}  -- of each log, where an entry has left its ring in this call: what follows may be near

  -- The number whose last byte is at `at`, and the index of the last byte before it.
  local function before(bytes, at)
    local x, y, z
    if at > 2 then
      x, y, z = byte(bytes, at - 2, at)
      if y < 128 then
        return z, at - 1
      elseif x < 128 then
        return (y - 128) * 128 + z, at - 2
      end
    end
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
    return count <= MOST_OF_LOG and '\128' .. it.number(count) or error({ err = NOT_OURS })
  end

  -- `length` bytes of the ring, after the first `skipped`.
  local function of_ring(log, skipped, length)
    if length == 0 then
      return ''
    end
    local at = (log.begin + skipped) % log.size
    local base = log.base
    local bytes = call('GETRANGE', log.key, base + at, base + min(at + length, log.size) - 1)
    if at + length > log.size then
      bytes = bytes .. call('GETRANGE', log.key, base, base + at + length - log.size - 1)
    end
    return #bytes == length and bytes or error({ err = NOT_OURS })
  end

  -- The number that begins at `at`, and the index of the next one.
  local function number_at(bytes, at)
    local x, y, z = byte(bytes, at, at + 2)
    if x < 128 then
      return x, at + 1
    elseif y < 128 then
      return (x - 128) * 128 + y, at + 2
    end
    local high, bits = ((x - 128) * 128 + y - 128) * 128, z
    at = at + 2
    while bits >= 128 do
      high, at = (high + bits - 128) * 128, at + 1
      bits = byte(bytes, at)
    end
    return high + bits, at + 1
  end

  -- The sum of the numbers in BLOCK bytes, of which no number is a run, and how many they are. The last one is left out if
  -- it goes on behind them.
  local BLOCK = 32
  local function add_up(bytes, at)
    local sum, count, high = 0, 0, 0
    local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, A, B, C, D, E, F =
      byte(bytes, at, at + BLOCK - 1)
    if a < 128 and b < 128 and c < 128 and d < 128 and e < 128 and f < 128 and g < 128 and h < 128 and i < 128
        and j < 128 and k < 128 and l < 128 and m < 128 and n < 128 and o < 128 and p < 128 and q < 128 and r < 128
        and s < 128 and t < 128 and u < 128 and v < 128 and w < 128 and x < 128 and y < 128 and z < 128 and A < 128
        and B < 128 and C < 128 and D < 128 and E < 128 and F < 128 then
      return a + b + c + d + e + f + g + h + i + j + k + l + m + n + o + p + q + r + s + t + u + v + w + x + y + z + A
        + B + C + D + E + F, BLOCK
    end
    if a < 128 then sum = sum + high + a; count = count + 1; high = 0 else high = (high + a - 128) * 128 end
    if b < 128 then sum = sum + high + b; count = count + 1; high = 0 else high = (high + b - 128) * 128 end
    if c < 128 then sum = sum + high + c; count = count + 1; high = 0 else high = (high + c - 128) * 128 end
    if d < 128 then sum = sum + high + d; count = count + 1; high = 0 else high = (high + d - 128) * 128 end
    if e < 128 then sum = sum + high + e; count = count + 1; high = 0 else high = (high + e - 128) * 128 end
    if f < 128 then sum = sum + high + f; count = count + 1; high = 0 else high = (high + f - 128) * 128 end
    if g < 128 then sum = sum + high + g; count = count + 1; high = 0 else high = (high + g - 128) * 128 end
    if h < 128 then sum = sum + high + h; count = count + 1; high = 0 else high = (high + h - 128) * 128 end
    if i < 128 then sum = sum + high + i; count = count + 1; high = 0 else high = (high + i - 128) * 128 end
    if j < 128 then sum = sum + high + j; count = count + 1; high = 0 else high = (high + j - 128) * 128 end
    if k < 128 then sum = sum + high + k; count = count + 1; high = 0 else high = (high + k - 128) * 128 end
    if l < 128 then sum = sum + high + l; count = count + 1; high = 0 else high = (high + l - 128) * 128 end
    if m < 128 then sum = sum + high + m; count = count + 1; high = 0 else high = (high + m - 128) * 128 end
    if n < 128 then sum = sum + high + n; count = count + 1; high = 0 else high = (high + n - 128) * 128 end
    if o < 128 then sum = sum + high + o; count = count + 1; high = 0 else high = (high + o - 128) * 128 end
    if p < 128 then sum = sum + high + p; count = count + 1; high = 0 else high = (high + p - 128) * 128 end
    if q < 128 then sum = sum + high + q; count = count + 1; high = 0 else high = (high + q - 128) * 128 end
    if r < 128 then sum = sum + high + r; count = count + 1; high = 0 else high = (high + r - 128) * 128 end
    if s < 128 then sum = sum + high + s; count = count + 1; high = 0 else high = (high + s - 128) * 128 end
    if t < 128 then sum = sum + high + t; count = count + 1; high = 0 else high = (high + t - 128) * 128 end
    if u < 128 then sum = sum + high + u; count = count + 1; high = 0 else high = (high + u - 128) * 128 end
    if v < 128 then sum = sum + high + v; count = count + 1; high = 0 else high = (high + v - 128) * 128 end
    if w < 128 then sum = sum + high + w; count = count + 1; high = 0 else high = (high + w - 128) * 128 end
    if x < 128 then sum = sum + high + x; count = count + 1; high = 0 else high = (high + x - 128) * 128 end
    if y < 128 then sum = sum + high + y; count = count + 1; high = 0 else high = (high + y - 128) * 128 end
    if z < 128 then sum = sum + high + z; count = count + 1; high = 0 else high = (high + z - 128) * 128 end
    if A < 128 then sum = sum + high + A; count = count + 1; high = 0 else high = (high + A - 128) * 128 end
    if B < 128 then sum = sum + high + B; count = count + 1; high = 0 else high = (high + B - 128) * 128 end
    if C < 128 then sum = sum + high + C; count = count + 1; high = 0 else high = (high + C - 128) * 128 end
    if D < 128 then sum = sum + high + D; count = count + 1; high = 0 else high = (high + D - 128) * 128 end
    if E < 128 then sum = sum + high + E; count = count + 1; high = 0 else high = (high + E - 128) * 128 end
    if F < 128 then sum = sum + high + F; count = count + 1 end
    return sum, count
  end

  -- Passes numbers in the direction of the walk. False: the walk has ended.
  local function pass(walk, bytes)
    local has_runs, most, time, size = walk.has_runs, walk.most, walk.time, #bytes
    local entry, passed, at, goes_on = walk.entry, walk.passed, 1, true
    local run = has_runs and 0 or size + 1  -- where a run begins: there is none between `at` and this byte
    if walk.forward then
      local alone = 0  -- numbers up to this byte are passed one by one
      while at <= size do
        if passed >= most or entry > time then
          goes_on = false
          break
        end
        local many = false
        if at > alone and at + BLOCK - 1 <= size then
          if run < at then
            run = find(bytes, '\128', at, true) or size + 1
          end
          if run >= at + BLOCK then
            local sum, count = add_up(bytes, at)
            if entry + sum <= time and passed + count <= most and count > 0 then
              many, entry, passed, at = true, entry + sum, passed + count, at + BLOCK
              while byte(bytes, at - 1) >= 128 do
                at = at - 1
              end
            end
          end
          alone = many and alone or at + BLOCK - 1
        end
        if not many then
          local first, second = byte(bytes, at, at + 1)
          local number, past = first, at + 1
          if first >= 128 and second < 128 then
            number, past = (first - 128) * 128 + second, at + 2
          elseif first >= 128 then
            number, past = number_at(bytes, at)
          end
          if not has_runs or first ~= 128 then
            entry, passed = entry + number, passed + 1
          elseif number > most - passed then
            walk.within, passed, goes_on = most - passed, most, false
            break
          else
            passed = passed + number
          end
          at = past
        end
      end
      walk.bytes = walk.bytes + at - 1
    else
      local alone = size + 1  -- numbers from this byte on are passed one by one
      at = size
      while at > 0 do
        if passed >= most or entry <= time then
          goes_on = false
          break
        end
        local many = false
        if at < alone and at >= BLOCK then
          local first = at - BLOCK + 1
          if has_runs then
            run = find(bytes, '\128', first, true) or size + 1
          end
          if run > at then
            -- the first one may belong to a longer number
            local sum, count = add_up(bytes, first)
            local number, past = number_at(bytes, first)
            sum, count = sum - number, count - 1
            if entry - sum > time and passed + count <= most and count > 0 then
              many, entry, passed, at = true, entry - sum, passed + count, past - 1
            end
          end
          alone = many and alone or first
        end
        if not many then
          local number, past = before(bytes, at)
          if not has_runs or byte(bytes, past + 1) ~= 128 then
            entry, passed = entry - number, passed + 1
          elseif number > most - passed then
            walk.within, walk.run, walk.run_bytes = most - passed, number, at - past
            passed, goes_on = most, false
            break
          else
            passed = passed + number
          end
          at = past
        end
      end
      walk.bytes = walk.bytes + size - at
    end
    walk.entry, walk.passed = entry, passed
    return goes_on
  end

  -- The ms from the entry before these numbers to that of the last one.
  local function span_of(log, numbers)
    local it = { forward = true, most = math.huge, time = math.huge, has_runs = log.has_runs, entry = 0, passed = 0,
      bytes = 0 }
    pass(it, numbers)
    return it.entry
  end

  -- Walks over at most `most` entries: forward from the oldest one, while entries are not after `time`; or back from the
  -- newest one, while they are. Returns the time of the entry where the walk ends, the count of passed entries, and the
  -- bytes of their numbers. If it ends within a run, `within` is the number of entries of this run that were passed; of a
  -- walk back, `run` and `run_bytes` are the entries and the bytes of the run. `from`: another place to begin at; of a
  -- walk forward also what an earlier one has returned, of a walk back one in the ring, with the bytes behind it.
  local function walk(log, forward, most, time, from)
    local it = { forward = forward, most = most, time = time, has_runs = log.has_runs, within = 0 }
    if from then
      it.entry, it.passed, it.bytes = from.entry, from.passed - from.within, from.bytes
    else
      it.entry, it.passed, it.bytes = forward and log.oldest or log.newest, 0, 0
    end
    local of_next, filled, done = #log.next, log.filled, 0
    local front = forward and log.next or log.latest
    if from then
      done = min(max(from.bytes - #front, 0), filled)
      front = forward and sub(front, from.bytes + 1) or sub(front, 1, max(#front - from.bytes, 0))
    end
    local goes_on = pass(it, front)
    local size = FRONT
    while goes_on and done < filled do
      -- a number is one entry or more: no more bytes are read at once than entries are wanted
      local length = min(size, filled - done, max(most - it.passed, FRONT))
      local bytes = of_ring(log, forward and done or filled - done - length, length)
      if forward then
        bytes = string.match(bytes, '^.*[%z\1-\127]')
      elseif done + length < filled then
        bytes = sub(bytes, find(bytes, '[%z\1-\127]') + 1)
      end
      if #bytes == 0 then
        error({ err = NOT_OURS })  -- no number is that long
      end
      done, size = done + #bytes, min(4 * size, 4096)
      goes_on = pass(it, bytes)
    end
    if goes_on then
      pass(it, not forward and log.next or from and sub(log.latest, max(from.bytes - of_next - filled, 0) + 1) or log.latest)
    end
    return it
  end

  -- The number that begins after so many bytes of numbers, and its bytes.
  local function number_after(log, skipped)
    local ahead, behind = skipped - #log.next, skipped - #log.next - log.filled
    local bytes = behind >= 0 and sub(log.latest, behind + 1) or ahead < 0 and sub(log.next, skipped + 1)
      or of_ring(log, ahead, min(LONGEST, -behind))
    local number, past = number_at(bytes, 1)
    return number, past - 1
  end

  -- How many places of marks are among so many bytes of the ring from byte `at` on, and which is the first.
  local function places(size, at, length)
    local all, first = ceil(size / STEP), ceil(at / STEP)
    local past = at + length - size
    return past > 0 and all - first + ceil(past / STEP) or ceil((at + length) / STEP) - first, first % all
  end

  -- The log has marks.
  local function has_marks(log)
    local size = log.size
    local last = HEAD + size + ceil(size / STEP) * MARK_BYTES - 1
    return size > 0 and log.base == HEAD and call('GETRANGE', log.key, last, last) ~= ''
  end

  -- Places that walk() may begin at: the latest that is known of those not after `time`, and the first of the others,
  -- with the bytes behind it.
  local function near(log, time)
    local of_next, begin, size, filled = #log.next, log.begin, log.size, log.filled
    local below = { entry = log.oldest, passed = 0, bytes = 0, within = 0 }
    local above = { entry = log.newest, passed = 0, bytes = 0, within = 0 }
    local left, marked = places_left[log.key], size > 0 and filled > 0 and has_marks(log)
    if not left and not marked then
      return below, above
    end
    local ahead = log.oldest + span_of(log, log.next)
    -- The place at this byte of the ring, of the numbers after an entry; nil if they are not there.
    local function place_at(at, entry, offset)
      local bytes = (at - begin) % size + offset
      return entry > ahead and entry <= log.newest and offset < LONGEST and bytes > 0 and bytes <= filled
        and { entry = entry, passed = 0, bytes = of_next + bytes, within = 0 } or nil
    end
    local function from_behind(place)
      place.bytes = of_next + filled + #log.latest - place.bytes
      return place
    end
    if marked then
      local count, first = places(size, begin, filled)
      local base, all, low, high = HEAD + size, ceil(size / STEP), -1, count
      while high - low > 1 do
        local is_next = high - low <= 2 * MARKS
        local from = is_next and low + 1 or floor((low + high) / 2)
        local slot = (first + from) % all
        local till = min(from + MARKS, from + all - slot, high)  -- the first one behind
        local marks = call('GETRANGE', log.key, base + slot * MARK_BYTES, base + (slot + till - from) * MARK_BYTES - 1)
        local found, is_above = false, false
        for i = from, till - 1 do
          local entry, offset = open(MARK, marks, (i - from) * MARK_BYTES + 1)
          local place = place_at((slot + i - from) * STEP, entry, offset)
          if place and entry > time then
            high, above, is_above = found and i or from, from_behind(place), true
            break
          elseif place then
            low, below, found = i, place, true
          end
        end
        if not is_above and (found or is_next) then
          low = till - 1
        elseif not is_above then
          high = from  -- none is there; those behind may be nearer, and are not looked for
        end
      end
    end
    local place = left and left.size == size and place_at(left.at, left.entry, 0)
    if place and place.entry <= time and place.bytes > below.bytes then
      below = place
    elseif place and place.entry > time and from_behind(place).bytes > above.bytes then
      above = place
    end
    return below, above
  end

  -- How many bytes of numbers there are up to that of an entry of this time. nil: there is no such entry.
  local function place_of(log, time)
    local below, above = near(log, time - 1)
    if time - below.entry <= above.entry - time then
      local found = walk(log, true, math.huge, time - 1, below)
      return found.entry == time and found.bytes or nil
    end
    local found = walk(log, false, math.huge, time, above)
    return found.entry == time and #log.next + log.filled + #log.latest - found.bytes or nil
  end

  -- So many bytes of the ring, from this one on, are not what marks tell of any more.
  local function unmark(log, at, length)
    local unmarked = log.unmarked
    places_left[log.key] = nil
    log.unmarked = { at = at, length = length + (unmarked and unmarked.length or 0) }
  end

  -- Clears their marks. Returns an error if there is no memory.
  function it.clear_marks(log)
    local unmarked, size = log.unmarked, log.size
    log.unmarked = nil
    if not has_marks(log) then
      return nil
    end
    local base = HEAD + size
    local function clear(from, bytes)
      local marks = bytes > 0 and call('GETRANGE', log.key, base + from, base + from + bytes - 1) or ''
      if find(marks, '[^%z]') then
        local set = pcall('SETRANGE', log.key, base + from, rep('\0', bytes))
        return type(set) == 'table' and set or nil
      end
    end
    local length = min(unmarked.length + LONGEST + 1, size)
    local count, first = places(size, (unmarked.at - LONGEST) % size, length)
    local at_end = min(count, ceil(size / STEP) - first)
    return clear(first * MARK_BYTES, at_end * MARK_BYTES) or clear(0, (count - at_end) * MARK_BYTES)
  end

  local function without_ring(log)
    places_left[log.key] = nil
    log.base, log.size, log.begin, log.filled, log.next = HEAD, 0, 0, 0, ''
  end

  -- Moves all numbers into `latest`.
  local function flatten(log)
    log.latest = log.next .. of_ring(log, 0, log.filled) .. log.latest
    without_ring(log)
  end
  it.flatten = flatten

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
    unmark(log, (log.begin + log.filled) % log.size, #tail)
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
      log.size, log.filled = ceil(needed / step) * step - HEAD - 16, #bytes
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

  -- The index before what stands for nothing in front of a number that leaves: it belongs to that number.
  local function before_nothing(log, bytes, at)
    while log.has_runs and at > 0 do
      local number, past = before(bytes, at)
      if number > 0 or byte(bytes, past + 1) ~= 128 then
        break
      end
      at = past
    end
    return at
  end

  -- Finds the latest entry that is not after `time`, and moves the numbers behind it into `latest`. Returns its time, ms
  -- from it to its successor (nil: it has none), the index in `latest` where its number ends, the index after its
  -- successor's number, and, if `counted`, the number of entries after it. Returns nil if all entries are after `time`;
  -- all numbers are in `latest` then. `more`: so many bytes before that index are moved, too.
  local function split(log, time, more, counted)
    local above
    if not counted and log.filled > 0 then
      above = select(2, near(log, time))
    end
    local found = walk(log, false, math.huge, time, above)
    more = more + (log.has_runs and LONGEST or 0)
    log.place = false
    if found.entry < log.oldest or found.entry > time and found.entry ~= log.oldest then
      error({ err = NOT_OURS })
    elseif found.bytes + more > #log.latest then
      pull(log, found.bytes + more)
    end
    local at = #log.latest - found.bytes
    if found.entry > time then
      return nil
    elseif found.bytes == 0 then
      return found.entry, nil, at, at + 1, 0
    end
    local behind, rest = number_at(log.latest, at + 1)
    return found.entry, behind, before_nothing(log, log.latest, at), rest, found.passed
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
      entry, _, at, _, moved = split(log, farthest, 0, true)
    else
      if not log.has_runs then
        of_ring(log, 0, log.filled)  -- an error if it has fewer entries than it says
      end
      without_ring(log)
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
  -- `has_stepped` back since, the entries may have been moved to an earlier time, together with all later ones: then it
  -- removes entries of the newest time that is not after `logged`. Returns false if there are none: they have left.
  local function take_out(log, logged, has_stepped, most)
    local entry, behind, at, rest = split(log, logged, (log.has_runs and min(most, FRONT) or most) + LONGEST)
    if log.used == 0 or not entry or entry ~= logged and not has_stepped then
      return false
    end
    -- an entry of the same time as the one before it is a number of one zero byte, or is in a run; usually all of these
    -- numbers are adjacent zero bytes
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
    at = ahead > 0 and before_nothing(log, bytes, at) or at
    if gone == most or ahead > 0 then
      log.latest = sub(bytes, 1, at) .. kept .. (behind and it.number(ahead + behind) or '') .. sub(bytes, rest)
      log.newest = behind and log.newest or entry - ahead
    elseif log.filled > 0 or log.next ~= '' then
      flatten(log)  -- the entry before is in the ring or in `next`
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

  -- Takes up to `most` entries out of the numbers in `bytes`: entries of the time of the entry whose number ends at byte
  -- `at`. Returns the values of the numbers that are left, without runs of no entries; which of them are runs; the index
  -- of the first changed number; the index of the number behind the change, and the last byte that this number had in
  -- `bytes`; how many entries are gone; and how much later the oldest entry is. `from_oldest`: the entry before the first
  -- number is the oldest one. Returns nil if entries of that time may be outside of `bytes`.
  local function without(log, bytes, at, most, from_oldest)
    local values, are_runs, ends, count, place, byte_at = {}, {}, {}, 0, at == 0 and 0, 1
    while byte_at <= #bytes do
      count = count + 1
      are_runs[count] = log.has_runs and byte(bytes, byte_at) == 128
      values[count], byte_at = number_at(bytes, byte_at)
      ends[count] = byte_at - 1
      place = place or byte_at - 1 == at and count
      if values[count] > MOST_OF_LOG then
        return nil
      end
    end
    if not place then
      return nil
    end
    while place > 0 and (are_runs[place] or values[place] == 0) do
      place = place - 1
    end
    local behind, entries = place + 1, 1
    while are_runs[behind] or values[behind] == 0 do
      entries, behind = entries + (are_runs[behind] and values[behind] or 1), behind + 1
    end
    if behind > count or place == 0 and not from_oldest then
      return nil
    end
    local gone = min(entries, most)
    if gone > log.used then
      error({ err = NOT_OURS })
    end

    local new, new_runs, later = {}, {}, 0
    local function keep(value, is_run)
      if value > 0 or not is_run then
        new[#new + 1], new_runs[#new_runs + 1] = value, is_run
      end
    end
    for i = 1, place - 1 do
      keep(values[i], are_runs[i])
    end
    local changed = #new + 1
    if entries > most then
      local left = entries - 1 - most
      if place > 0 then
        keep(values[place], false)
      end
      if log.has_runs and left >= SHORTEST_RUN then
        keep(left, true)
      else
        for _ = 1, left do
          keep(0, false)
        end
      end
      keep(values[behind], false)
    elseif place > 0 then
      keep(values[place] + values[behind], false)
    else
      later = values[behind]
    end
    local last = #new
    for i = behind + 1, count do
      keep(values[i], are_runs[i])
    end
    return new, new_runs, changed, last, ends[behind], gone, later
  end

  -- The bytes of the numbers up to number `last`, longer by `spare` bytes that stand for nothing. These are added to
  -- number `from` and those behind it, then to those before it, until each has ROOMY bytes: as zeros in front of the
  -- number of a run, or as a run of no entries in front of another number. To take them, an entry of the time of the one
  -- before it is written as a run of one. Returns nil if there is no place for all of them.
  local function text_of(values, are_runs, last, from, spare)
    local texts, place, step = {}, from, 1
    for i = 1, last do
      texts[i] = (are_runs[i] and '\128' or '') .. it.number(values[i])
    end
    while spare > 0 do
      local text = texts[place]
      if not text and step < 0 then
        return nil
      elseif not text then
        place, step = from, -1
      elseif are_runs[place] or values[place] == 0 then
        local some = min(spare, ROOMY - #text)
        texts[place] = some > 0 and rep('\128', some) .. (are_runs[place] and text or '\1') or text
        spare = spare - max(some, 0)
      else
        local some = min(spare, ROOMY - #text)
        some = spare - some == 1 and some - 1 or some
        if some > 1 then
          texts[place], spare = rep('\128', some - 1) .. '\0' .. text, spare - some
        end
      end
      place = place + step
    end
    return table.concat(texts)
  end

  -- True if the numbers of the log fit into the format with runs.
  local function can_have_runs(log)
    return log.newest - log.oldest <= MOST_OF_LOG and log.used <= MOST_OF_LOG
  end

  -- Has take_back() replace the bytes `old` of the ring, which come after its first `skipped` bytes, by `new`.
  local function overwrite(log, skipped, old, new)
    local first, last = 1, #old
    while first < last and byte(old, first) == byte(new, first) do
      first = first + 1
    end
    while last > first and byte(old, last) == byte(new, last) do
      last = last - 1
    end
    log.patch = { skipped + first - 1, sub(new, first, last) }
    unmark(log, (log.begin + skipped + first - 1) % log.size, last - first + 1)
  end

  -- take_out() of an entry whose number ends after `place` bytes of the ring: up to `reach` bytes on both sides of that
  -- are written anew. nil: they do not tell all; or, if no others `may_move`, spare bytes have no place there.
  local function take_out_inside(log, logged, place, most, reach, may_move)
    local filled = log.filled
    local from, to = max(place - reach, 0), min(place + reach, filled)
    local bytes = of_ring(log, from, to - from)
    local cut = from > 0 and find(bytes, '[%z\1-\127]') or 0
    bytes, from = sub(bytes, cut + 1), from + cut
    bytes = string.match(bytes, '^.*[%z\1-\127]') or ''
    to = from + #bytes
    local values, are_runs, changed, _, _, gone = without(log, bytes, place - from, most, false)
    if not values then
      return nil
    end
    local text = text_of(values, are_runs, #values, changed, 0)
    local spare = #bytes - #text
    local same_size = spare == 0 and text or can_have_runs(log) and text_of(values, are_runs, #values, changed, spare)
    if not same_size and not may_move then
      return nil
    end
    log.used, log.place = log.used - gone, false
    if same_size then
      local ahead = span_of(log, sub(bytes, 1, place - from))
      log.has_runs = log.has_runs or spare > 0
      overwrite(log, from, bytes, same_size)
      places_left[log.key] = { at = (log.begin + from) % log.size, size = log.size, entry = logged - ahead }
    elseif from < filled - to then
      log.patch = { 0, of_ring(log, 0, from) .. text }
      unmark(log, log.begin, to)
      log.begin, log.filled = (log.begin + spare) % log.size, filled - spare
    else
      log.latest, log.filled = text .. of_ring(log, to, filled - to) .. log.latest, from
      unmark(log, (log.begin + from) % log.size, filled - from)
    end
    return true
  end

  -- Does what take_out() does, but overwrites only the bytes near the entries. Not to be called if the clock has stepped
  -- back. Returns nil if take_out() has to do it, as for the newest entries.
  local function take_out_of_ring(log, logged, most)
    if log.filled == 0 or logged >= log.newest then
      return nil
    elseif logged < log.oldest then
      return false
    end
    local place = place_of(log, logged)
    if not place then
      return false
    end
    local of_next, filled = #log.next, log.filled
    place = place - of_next
    if place > 0 and place <= filled and (take_out_inside(log, logged, place, most, NEAR, false)
        or take_out_inside(log, logged, place, most, FRONT, true)) then
      return true
    elseif place > FRONT then
      return nil
    end
    local head = of_ring(log, 0, min(filled, FRONT))
    head = #head < filled and (string.match(head, '^.*[%z\1-\127]') or '') or head
    local values, are_runs, _, last, past, gone, later = without(log, log.next .. head, of_next + place, most, true)
    local next_bytes = values and text_of(values, are_runs, last, 1, 0) .. sub(log.next, past + 1)
    if not values or #next_bytes > FRONT then
      return nil
    end
    log.used, log.oldest, log.next, log.place = log.used - gone, log.oldest + later, next_bytes, false
    if past > of_next then
      log.begin, log.filled = (log.begin + past - of_next) % log.size, filled - past + of_next
    end
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
    local cost, has_stepped, is_out = log.options.cost, own_clock and now < taken, nil
    if cost == 0 then
      return false
    end
    log.patch = false
    if not has_stepped then is_out = take_out_of_ring(log, logged, cost) end  -- the version before does without this line
    if is_out == nil then
      is_out = take_out(log, logged, has_stepped, cost)
    end
    if not is_out then
      return false
    end
    local ttl = log.ttl
    if blocked then
      log.ttl = format('%d', max(tonumber(ttl), log.blocked - now))
    end
    call('PEXPIRE', log.key, log.ttl)  -- Redis does not refuse a script for lack of memory once it has written
    if log.patch then
      local skipped, bytes = log.patch[1], log.patch[2]
      local at = (log.begin + skipped) % log.size
      call('SETRANGE', log.key, log.base + at, sub(bytes, 1, log.size - at))
      if at + #bytes > log.size then
        call('SETRANGE', log.key, log.base, sub(bytes, log.size - at + 1))
      end
    end
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

  -- Finds what a walk forward to the first entry after `time` would find, by a walk back from the newest one.
  local function left_before(log, time)
    local back = walk(log, false, math.huge, time)
    if back.entry > time then
      error({ err = NOT_OURS })
    end
    local at = #log.next + log.filled + #log.latest - back.bytes
    local number, size = number_after(log, at)
    return { entry = back.entry + number, passed = log.used - back.passed, bytes = at + size, within = 0 }
  end

  -- Removes the oldest entries: at most `most`, and none after `time`; never all of them.
  function it.drop(log, most, time)
    local found = most == math.huge and time - log.oldest > log.newest - time and left_before(log, time)
      or walk(log, true, most, time)
    if found.passed >= log.used or found.entry > log.newest or found.entry <= time and found.passed < most then
      error({ err = NOT_OURS })
    end
    log.oldest, log.used, log.place = found.entry, log.used - found.passed, false
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

  -- So many bytes for a blocked log that stand for nothing: runs of no entries.
  local function nothing(bytes)
    local pieces = floor(bytes / LONGEST)
    local rest = bytes % LONGEST
    if rest == 1 then
      pieces, rest = pieces - 1, LONGEST + 1
    end
    local text = rep(rep('\128', LONGEST - 1) .. '\0', pieces)
    if rest > LONGEST then
      text, rest = text .. rep('\128', LONGEST - 2) .. '\0', 2
    end
    return rest > 0 and text .. rep('\128', rest - 1) .. '\0' or text
  end

  -- Reads a log in its blocked form, whose first bytes are `front`. The rest of it is taken for a ring that begins with
  -- the first number. Returns true if the block lasts.
  function it.read_blocked(log, front)
    if #front < BLOCKED_BYTES then
      return { err = NOT_OURS }
    end
    local _, till, length
    log.has_runs = byte(front) == BLOCKED_WITH_RUNS
    _, till, length, log.oldest, log.newest, log.used =
      open(log.has_runs and BLOCKED_STATE_WITH_RUNS or BLOCKED_STATE, front)
    if log.has_runs then
      log.newest = log.oldest + log.newest
    end
    local bytes = #front
    if bytes >= HEAD then
      bytes = pcall('SETRANGE', log.key, '0', '')  -- tells the length, and writes nothing; but not if memory is full
      bytes = type(bytes) == 'number' and bytes or #call('GETRANGE', log.key, '0', '-1')
    end
    bytes = bytes - BLOCKED_BYTES
    local numbers = max(log.used - 1, 0)
    local fewest = log.has_runs and min(numbers, 1) or numbers
    if bytes < fewest or bytes > numbers * LONGEST or log.used > 0 and log.oldest > log.newest then
      return { err = NOT_OURS }
    end
    log.touched, log.next, log.latest = 0, '', ''
    log.base, log.size, log.begin, log.filled = BLOCKED_BYTES, bytes, 0, bytes
    if log.used == 0 then
      log.newest = -math.huge
    end
    log.dead_at = 0
    local goes_on, most = log.has_runs, FRONT
    while goes_on and log.filled > 0 do
      local chunk, at = of_ring(log, 0, min(most, log.filled)), 1
      local _, last = find(chunk, '^\128+%z')
      while last do
        log.dead_at, at = log.begin + at - 1, last + 1
        _, last = find(chunk, '^\128+%z', at)
      end
      log.begin, log.filled = log.begin + at - 1, log.filled - at + 1
      goes_on, most = at > 1 and #chunk - at + 1 <= LONGEST, 1024
    end
    log.dead = log.begin
    if till > now then
      log.blocked, log.block_length = till, length
      return true
    end
    log.changed = true
  end

  -- How many bytes at the beginning of a blocked log may stand for nothing. They grow when entries leave. With more of
  -- them the log is written whole.
  local MOST_DEAD = 2048

  function it.write_blocked(log)
    local dead, filled, size = log.begin - #log.next, log.filled, log.size
    local live, ends = #log.next + filled + #log.latest, log.begin + filled
    local in_place = log.base == BLOCKED_BYTES and dead ~= 1 and dead >= log.dead and dead <= min(MOST_DEAD, live / 8)
      and ends + #log.latest >= size and ends + #log.latest <= (log.used - 1) * LONGEST
    local fits = can_have_runs(log)
    in_place = in_place and (dead == 0 or fits)
    if not in_place then
      flatten(log)
    end
    -- one such byte alone is not possible, and two can grow: so a long log is written with two of them
    local head
    local first = not in_place and fits and live > 4 * FRONT and 2 or 0
    if log.has_runs or first > 0 or in_place and dead > 0 then
      log.has_runs = true
      head = pack(BLOCKED_STATE_WITH_RUNS, BLOCKED_WITH_RUNS, log.blocked, log.block_length, log.oldest, span(log), log.used)
    else
      head = pack(BLOCKED_STATE, BLOCKED, log.blocked, log.block_length, log.oldest, log.newest, log.used)
    end
    local all = dead + live
    if in_place then
      local set = pcall('SETRANGE', log.key, '0', head)
      if type(set) == 'table' then
        return set
      end
      local at = log.dead_at
      if dead > log.dead then
        call('SETRANGE', log.key, BLOCKED_BYTES + at, nothing(dead - at) .. log.next)
      elseif log.next ~= '' then
        call('SETRANGE', log.key, BLOCKED_BYTES + dead, log.next)
      end
      if log.latest ~= '' then
        call('SETRANGE', log.key, BLOCKED_BYTES + ends, log.latest)
      end
      call('PEXPIRE', log.key, log.ttl)
    else
      local set = pcall('SET', log.key, head .. nothing(first) .. log.latest, 'PX', log.ttl)
      if not set.ok then
        return set
      end
      dead, all, log.dead_at = first, first + live, 0
    end
    log.base, log.size, log.begin, log.filled, log.dead = BLOCKED_BYTES, all, dead, all - dead, dead
    log.next, log.latest = '', ''
  end

  function it.block(log)
    local failed = add(log, nil, 1, 0)
    if failed then
      error(failed)
    end
  end

  function it.unblock(log)
    log.blocked = false
    flatten(log)
    it.write(log)
  end

  function it.newest(log)
    return log.used > 0 and log.newest or now
  end

  -- The time of the entry after the `skipped` oldest ones. The walk begins at the nearer end, or where the walk for the
  -- request before has ended.
  local function arrival(log, skipped)
    local place, rest = log.place, log.used - skipped
    place = place and place.passed <= skipped and place or nil
    if log.has_runs and log.latest ~= '' and log.options and log.options.count then
      -- what was just added, a walk back passes at once
      local run, past = before(log.latest, #log.latest)
      rest = max(rest - (byte(log.latest, past + 1) == 128 and run or 0), 1)
    end
    if skipped - (place and place.passed or 0) < rest then
      place = walk(log, true, skipped, math.huge, place)
      if place.entry > log.newest then
        error({ err = NOT_OURS })
      end
    else
      place = walk(log, false, log.used - 1 - skipped, -math.huge)
      if place.entry < log.oldest then
        error({ err = NOT_OURS })
      end
      local is_within = place.within > 0
      place.bytes = #log.next + log.filled + #log.latest - place.bytes - (is_within and place.run_bytes or 0)
      place.passed, place.within = skipped, is_within and place.run - place.within or 0
    end
    log.place = place
    return place.entry
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
  log.found, log.changed, log.base, log.place = false, false, HEAD, false
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
    blocked = uncommon().read_blocked(log, front)
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
    log.base, log.frees, log.has_runs = HEAD, false, false
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
  if log.base ~= HEAD and not blocked then
    uncommon().flatten(log)  -- the block is over
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
  local longest = denied and log.cap > 0 and min(max(log.cap, log.used), MOST_OF_LOG) or MOST_OF_LOG
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
  local uncleared = log.unmarked and uncommon().clear_marks(log)
  if uncleared then
    return uncleared
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

return read, add, uncommon, LARGEST_COUNT, latest, set_now
