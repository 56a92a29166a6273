-- The frame of all algorithms. A request is admitted if every one of its logs has room. A log is what the algorithm
-- stores at one key. In a script the algorithm's file stands before this one, as the function `algorithm`.
--
-- One call decides several batches, one after the other. A batch is one or more requests with the same checks of the
-- same logs. The first requests that fit are admitted. A request is admitted by all logs of the batch, or by none.
--
-- KEYS   the logs of all batches
-- ARGV   [1] the time in ms, or '' for the clock of this server; then for each batch:
--          the number of logs, the number of requests, and for each request a unique name, '' if the algorithm needs
--            none; of no request, which only asks for permits, one name,
--          and for each log: limit, window (ms), cap (entries, 0 = none), time to live (ms), options; or one '' for all
--            five if they are those of the previous log,
--            and with the option ids one id per request, the name of its entry ('' = none),
--            and with the option told the text of its override ('' = none)
-- Reply  for each batch an error, which concerns this batch only, or:
--          { number of admitted requests, now, then three per log: remaining, reset (ms), retry (ms),
--            if an option override was given, two per log, see override.lua,
--            then for each held request, the last of those admitted: ms until its reservation, ascending;
--            or, if an option permits was given, the number of permits of each log }
--        remaining: what is left of the limit after the last admitted request. For an admitted request before it that
--                   is not held, add the costs of those behind it that are not held
--        reset:     time until more of the limit becomes available; the window if all of it is available. Of a quota,
--                   time until its period ends. Of requests under way, time until the oldest entry leaves if it is
--                   not renewed; their retry is the same
--        retry:     for a request that was not admitted: time until this log has room for it; 0 if it has room, -1 if
--                   it never will. All 0 if all requests were admitted
-- or
-- ARGV   'take back', the time or '', then for each request the time of its entries (ms), the time of its decision (ms;
--        earlier than the entries if it was held), and one batch of it, as above. Sent once for a request. If entries
--        have names, sending it again changes nothing. If the times are not known, the first may be in the future, and
--        the second is 0
--        The option settle has the true cost of the request. If that is less than cost, the difference is taken back. If
--        it is more, the difference is added, also beyond the limit: with the option ended, with the time at which the
--        request ended, or that of the log's latest entry if that is later, unless the end is a window ago; without ended,
--        as nodes of the version before send it, with the times of the request's own entries
-- Reply  the number of logs that were changed, or an error; of several requests an array of these
-- or, with algorithm=inflight, a renewal: see lua/renewal.lua
--
-- options are usually '', or words in this order, separated by a blank:
--   ids          entries have names of their own
--   cost=5       number of entries of a request, added together or not at all; 0 only looks
--   count=all    denied requests are logged too, up to cap
--   delay=2000   a request over the limit gets a reservation if it is at most this far ahead (ms), behind earlier ones
--   ahead=5000   how far ahead of now an entry of this log may be (ms): the largest delay of all requests
--   block=60000  a log that denies a request denies all requests for this time (ms). With several times,
--                block=60000,600000, a block lasts the next of them, see below
--   escalates    calls of other limits have several times for the blocks of this log
--   settle=7     of a take-back: the number of entries that the request should have had
--   ended=250    of settle: how long before the time of the call the request ended (ms)
--   permits=50   if all requests were admitted, the caller may admit up to this number of requests more without asking:
--                their entries are added now, with the time at which the permits end. Not beside count=all and delay
--   held=20      of permits, if there is no request: so many has the caller still
--   override     a record beside the log changes its limit, see override.lua. Not for a take-back
--   told         the record is among the arguments: in a cluster, while the hash slot is migrated
--   allow=0      of override: all keys of the NAME are allowed until then (ms; 0: for ever), if no record is in force
--   deny=0       the same: all are denied
--   burst=100    token_bucket.lua: the size of the bucket. Always present
--   sample=10    sampled_log.lua: one request in this number is logged. Always present
--
-- Entries are added only after all logs of the batch were read. So a key of the wrong type, or with contents that no
-- log has, leaves the other logs unchanged. Whatever a key contains, the reply to a batch is such numbers or an error.
-- Contents are not repaired, except for the effects of a clock that stepped back. If several logs hold a request, it
-- waits for the latest of its reservations and is logged with that time in all of them. If one log has no reservation
-- in time, the other logs that have no room now deny the request, too: their retry says when they have room.
--
-- The next request for the same log may have another limit, cap or cost: from another location, or from a node with
-- another configuration. So entries that a larger limit needs are never removed. Reading removes only what has left the
-- window. Only the youngest `limit` entries decide whether there is room and when, however long the log is. cap bounds
-- only denied requests that count: when these are added, the oldest entries are removed until the log has no more than
-- cap, or no more than before. Each removed entry is replaced by a newer one, so no limit finds more room than before.
--
-- A take-back removes what the request itself logged, as it was logged, and never entries of later requests. Entries
-- that have left already are ignored. A block ends with it if it began after the request was decided and the log then
-- has room for such a request: the requests denied meanwhile were denied because of an attempt that does not count.
--
-- If block= has several times, a string beside the log, <key>:blocks, remembers the latest block: its end (ms), its
-- length (ms), and its step, the number of that time in the list; behind them the same of the block before, if that one
-- led to this step. A block that begins within the length of the remembered one after its end has the next step, or the
-- last one again; otherwise it has the first one. If a take-back ends a block, the block before is remembered again.
-- The string lives as long as it is of use. A string with other contents counts as none. Its key is not among KEYS: it
-- has the hash slot of the log. While that slot is migrated, MGET of both keys fails unless both are here. Then a block has
-- the first step, and nothing is written, since the string may be on the other node.
--
-- A permit is an entry that is added before its request arrives. Its time is that at which the permits end, so it leaves
-- the window no earlier than an entry of the request would. A call gives at most a tenth of what remains; what the
-- caller has still is a part of that tenth.
--
-- When the clock steps back (a fail-over to a slower one), entries further ahead of now than reservations and permits
-- may be become entries of now: each still counts, and leaves at most one window later. A block lasts no longer than it
-- did when it began. An entry that was made before the step counts as older than the block.
--
-- For a log, the clock of the callers never steps back: the latest decision in the log is the earliest time of the next
-- one, so now may be later than the caller's time. Reservations are not decisions; where the two cannot be told apart,
-- the latest entry less the largest delay is taken. So a caller whose clock is behind removes no entries early. A
-- denial does not renew the time to live, which runs by the clock of this server.
--
-- While a hash slot of a cluster is migrated, the keys that have not left yet are here, and a key that a script has
-- emptied cannot be touched again. So a script never deletes a key that it may touch again: stale contents are removed
-- only if something stays, or after something was added.
--
-- algorithm(now, now_text, own_clock, permit_life) is called once, with the time in ms, the same as text, true if this
-- server's clock is used, and a function: permit_life(window) is how long permits last (ms). It returns the following,
-- in this order, since a table would have to be made at each call:
--   read(log)    reads log.key and prunes it: sets log.used, in units of the limit, and log.frees, when more of it
--                becomes available (ms; false: all of it is available). Returns an error; or true with log.blocked (the
--                end of the block, ms) and log.block_length
--   add(log, names, from, to, at, denied)  writes the entries of these requests (none if from > to) with the time `at`,
--                or now. Their names are ARGV[names + request]. Sets used and frees. Returns an error if there is no
--                memory; nothing is written then. Denied: keeps to cap, as described above
--   uncommon()     functions that few calls need, made on demand, since Lua makes functions anew at each call:
--     room_at(log, missing)      the time when `missing` more units will be available (ms)
--     newest(log)                a time that no reservation is later than (ms)
--     block(log, length, till)   stores a block. Raises an error if there is no memory; nothing is written then
--     unblock(log)               ends the block that read() found
--     take_back(log, name, id, logged, taken)   removes what add() wrote for a request that was decided at `taken`:
--                true if something was removed, and whether the log is blocked
--     owe(log, more, logged, taken, ended)   adds `more` entries to those of a request that ended at `ended`, with that
--                time or that of the latest entry. ended is false: of one that add() wrote with the time `logged`, and
--                that was decided at `taken`, as if it had added them, too. False if they would have left already.
--                Raises an error if there is no memory; nothing is written then. Only algorithms with settle= have it
--     permit(log, name, permits, at)   adds the entries of permits, with the time `at`. Returns an error if there is no
--                memory; nothing is written then. Only algorithms with permits have it
--     fits(log, names, requests) how many requests fit, if the number of their entries is not their cost; else nil
--   most_entries maximum number of entries of a request: a guard, since the caller denies requests that cost more
--   latest(log)  a time that no decision at log.key is later than (ms); 0 if unknown. Called before read(), for a
--                caller's clock; leaves what it read in log.found
--   set_now(now, now_text)  sets the time from here on. latest and set_now are for a caller's clock only, else false
-- An error is a table, as in replies, and may also be raised.
-- Other fields of a log: key, limit, capacity (limit, or the size of the bucket), window, cap, ttl (text), changed
-- (add() has to write it in any case), options (parsed; false: none) and ids (id j is ARGV[ids + j]).

local call, format, protect = redis.call, string.format, pcall

local taking_back = ARGV[1] == 'take back'
local now_text = taking_back and ARGV[2] or ARGV[1]
local own_clock = now_text == ''
if own_clock then
  local time = call('TIME')
  now_text = time[1] .. format('%03d', time[2] / 1000)
end
local now = tonumber(now_text)

-- A hundredth of the window, from 1 ms to 1 s.
local function permit_life(window)
  return window >= 100000 and 1000 or window > 100 and (window - window % 100) / 100 or 1
end

local read, add, uncommon, most_entries, latest, set_now = algorithm(now, now_text, own_clock, permit_life)
local called, called_text = now, now_text

-- Sets now to the time of the call, or of a later decision unless that time is impossible.
local begin_at = not own_clock and function(floor)
  if floor > called and floor <= LATEST_TIME then
    now_text = format('%d', floor)
    now = tonumber(now_text)
  else
    now, now_text = called, called_text
  end
  set_now(now, now_text)
end

-- What is needed for options and blocks only.
local function make_extras(call, format, read, add, uncommon, most_entries, permit_life)
  local it, parsed = {}, {}
  local floor = math.floor

  -- Parses options. Returns an error too if the algorithm cannot log a request of that cost: it would have more entries
  -- than Redis can write at once.
  function it.options(text)
    local options = parsed[text]
    if not options then
      options = { ids = false, cost = 1, count = false, delay = 0, ahead = 0, block = 0, permits = 0, held = 0,
        burst = false, sample = 1, settle = false, ended = false }
      for word, value in string.gmatch(text, '(%a+)=?([%w,]*)') do
        options[word] = tonumber(value) or true
        if word == 'block' and string.find(value, ',', 1, true) then
          options.block, options.times, options.escalates = tonumber(string.match(value, '^%d+')), value, true
        end
      end
      options.keeps = options.sample >= 1 and options.cost >= 0
        and math.max(options.cost, options.settle or 0) / options.sample <= most_entries
      parsed[text] = options
    end
    return options, not options.keeps and { err = 'ERR no log of this algorithm can keep a request of ' .. text } or nil
  end

  -- The reply to a batch for a raised error. Of a command: its error, which Redis 7.0 raises as text. Of Lua: the
  -- contents are not those of a log.
  function it.error_of(raised)
    if type(raised) == 'table' then
      return raised
    end
    local text = tostring(raised)
    return { err = string.find(text, '^%u+ ') and text or 'ERR a log cannot be read: ' .. text }
  end

  -- For a log that was blocked when it was read, or, if the block `begins`, is blocked from now on: corrects the end of
  -- the block if the clock has stepped back, and has the log live until then. With a caller's clock, the time to live
  -- shows how long the log has been blocked, so it is set only when a block begins.
  function it.blocked(log, begins)
    local length = log.block_length or -1
    if not (length >= 1 and length <= LONGEST_TIME and log.blocked > now) then
      error({ err = 'WRONGTYPE not a log: it is blocked for a time that cannot be' })
    end
    log.blocked, log.block_length = math.ceil(log.blocked), floor(length)
    if log.blocked > now + log.block_length then
      log.blocked = now + log.block_length
      uncommon().block(log, log.block_length, log.blocked)
    end
    local rest = format('%d', log.blocked - now)
    log.ttl = tonumber(rest) > tonumber(log.ttl) and rest or log.ttl
    if (own_clock or begins) and call('PTTL', log.key) < tonumber(log.ttl) then
      call('PEXPIRE', log.key, log.ttl)
    end
  end

  -- The string that remembers blocks. Made on demand, as uncommon().
  local made
  local function memory()
    if made then
      return made
    end
    local memory = {}
    made = memory

    local function numbers_in(text)
      local numbers = {}
      for digits in string.gmatch(text, '%d+') do
        numbers[#numbers + 1] = tonumber(digits)
      end
      return numbers
    end

    local function text_of(numbers)
      return string.sub(format(string.rep(' %d', #numbers), unpack(numbers)), 2)
    end

    -- End, length and step of the latest block, and those of the one before. False: the hash slot is on its way.
    function memory.read(log)
      local found = redis.pcall('MGET', log.key, log.key .. ':blocks')
      if found.err then
        local is_away = string.find(found.err, 'non local key', 1, true)  -- of Redis 7.0, then of later ones
          or string.find(found.err, 'undeclared keys were accessed during rehashing', 1, true)
        return not is_away and error(found)
      end
      local text = found[2] and #found[2] <= 120 and found[2] or ''
      local numbers = numbers_in(text)
      local fine = #numbers == 3 or #numbers == 6
      for i = 1, fine and #numbers or 0, 3 do
        local till, length, step = numbers[i], numbers[i + 1], numbers[i + 2]
        fine = fine and till <= LATEST_TIME and length >= 1 and length <= LONGEST_TIME and step >= 1
          and step <= 1000
      end
      return fine and text == text_of(numbers) and numbers or {}
    end

    -- `rest`: how long it is of use (ms).
    function memory.write(log, numbers, rest)
      local slack = math.max(log.ttl - log.window, 1)
      call('SET', log.key .. ':blocks', text_of(numbers), 'PX', format('%d', rest + slack))
    end

    -- The length of a block that begins now, and what is to be written then, unless that is not possible.
    function memory.begin(log)
      local before = memory.read(log)
      if not before then
        return log.options.block
      end
      local times = numbers_in(log.options.times)
      local step = before[1] and now - before[1] <= before[2] and math.min(before[3] + 1, #times) or 1
      local length = times[step]
      return length, { now + length, length, step, unpack(before, 1, step > 1 and 3 or 0) }
    end

    -- The block until `till` has ended early. The block before it is remembered again.
    function memory.forget(log, numbers, till)
      if (numbers[1] or -1) < till then
        return
      end
      local rest = numbers[4] and numbers[5] - math.max(now - numbers[4], 0) or -1
      if rest >= 0 then
        memory.write(log, { unpack(numbers, 4) }, rest)
      else
        call('DEL', log.key .. ':blocks')
      end
    end

    return memory
  end

  local function begin_block(log, length)
    local remembered
    if log.options.times then
      length, remembered = memory().begin(log)
    end
    log.blocked, log.block_length = now + length, length
    uncommon().block(log, length, log.blocked)
    if remembered then
      memory().write(log, remembered, 2 * length)
    end
    it.blocked(log, true)
  end

  local function cost_of(log)
    return log.options and log.options.cost or 1
  end

  local function never_has_room(log)
    return log.limit < 1 or cost_of(log) > log.capacity
  end

  -- The number of requests that have room now.
  function it.fits(log, names, requests)
    local cost, room = cost_of(log), log.capacity - log.used
    if log.blocked or never_has_room(log) or room < cost then
      return 0
    end
    local fits = uncommon().fits
    return fits and fits(log, names, requests) or cost == 0 and requests or floor(room / cost)
  end

  -- Time until the log has room (ms).
  function it.wait(log)
    if never_has_room(log) then
      return -1
    end
    local missing = log.used + cost_of(log) - log.capacity
    -- 1: very large numbers are rounded
    local wait = missing > 0 and math.max(uncommon().room_at(log, missing) - now, 1) or 0
    return log.blocked and math.max(wait, log.blocked - now) or wait
  end

  -- The time at which the log admits one more request; nil: not in time.
  local function reservation(log)
    local missing, delay = log.used + cost_of(log) - log.capacity, log.options and log.options.delay or 0
    if log.blocked or never_has_room(log) then
      return nil
    elseif missing <= 0 then
      return now
    elseif delay == 0 then
      return nil
    end
    local at = math.max(uncommon().newest(log), uncommon().room_at(log, missing))
    return at - now <= delay and at or nil
  end

  -- The reservation of one more request in all logs; nil, with the reservations of each log, if it is denied.
  local function reservation_in_all(logs, count)
    local at, reservations, denied = now, {}, false
    for i = 1, count do
      reservations[i] = reservation(logs[i])
      denied = denied or not reservations[i]
      at = reservations[i] and math.max(at, reservations[i]) or at
    end
    return not denied and at or nil, reservations
  end

  -- Requests that do not fit now. Returns the number of admitted requests, an error, and the delays for the reply.
  function it.hold(logs, count, names, admitted, requests)
    local held = {}
    while admitted < requests do
      local at, reservations = reservation_in_all(logs, count)
      if not at then
        it.deny(logs, count, names, admitted + 1, requests, reservations)
        break
      end
      admitted = admitted + 1
      for i = 1, count do
        local failed = not logs[i].over and add(logs[i], names, admitted, admitted, at)
        if failed then
          return admitted, failed  -- no memory: already the first log fails
        end
      end
      held[#held + 1] = at - now
    end
    return admitted, nil, held
  end

  -- The requests from `from` on are denied by the logs without a reservation for them.
  function it.deny(logs, count, names, from, requests, reservations)
    for i = 1, count do
      local log = logs[i]
      local options = log.options
      if options and options.block > 0 and not reservations[i] and not log.blocked and log.limit > 0 then
        begin_block(log, options.block)
      end
      if options and options.count and not log.over then
        local first = from
        if log.cap > 0 and options.cost > 0 and options.sample == 1 then
          local longest = math.max(log.cap, log.used)
          first = math.max(from, requests - math.ceil(longest / options.cost) + 1)  -- cap would remove the others
        end
        local failed = add(log, names, first, requests, nil, true)
        if failed then
          error(failed)
        end
      end
    end
  end

  -- To be called when all requests were admitted. Returns the number of permits of each log: for logs with the option
  -- the same one, since requests use them together, for others 0; nil if no log has the option. There are none while an
  -- override is in force, so that each request obeys it.
  function it.give_permits(logs, count, name)
    local permits, given
    for i = 1, count do
      local log = logs[i]
      local most, cost = log.options and log.options.permits or 0, cost_of(log)
      if most > 0 and cost > 0 then
        local held = log.options.held
        local some = math.min(most, floor((log.capacity - log.used + held * cost) / (10 * cost)) - held,
          floor(most_entries / cost))
        local has_none = log.blocked or log.over or log.options.override and log.said >= 0
        permits = math.min(permits or some, some, has_none and 0 or some)
      end
    end
    for i = 1, permits and count or 0 do
      local log = logs[i]
      local fine = permits > 0 and log.options and log.options.permits > 0
        and not uncommon().permit(log, name .. '~p', permits, now + permit_life(log.window))
      given = given or {}
      given[i] = fine and permits or 0
    end
    return given
  end

  -- An entry of a request that was decided at `taken` was removed from this log, which is blocked.
  function it.end_block(log, taken)
    log.blocked = false
    local has_stepped = own_clock and now < taken
    if read(log) == true and (log.blocked - log.block_length >= taken or has_stepped) and not never_has_room(log)
        and log.capacity - log.used >= cost_of(log) then
      local till = log.blocked
      local remembered = log.options.escalates and memory().read(log)  -- unblock() may remove the log
      uncommon().unblock(log)
      if remembered then
        memory().forget(log, remembered, till)
      end
    end
  end

  return it
end

local KEYS, ARGV = KEYS, ARGV
local extras                            -- make_extras(), as soon as it is needed
local records                           -- overrides(), the same
local logs = {}                        -- of the current batch; all batches use the same tables
local replies, places = ARGV.replies or {}, ARGV.places  -- of a plain call: the places of the logs that are left
local batches = 0
local before = 0                       -- number of keys of earlier batches
local at = taking_back and 3 or 2      -- index of the batch's arguments
local limit, window, cap, ttl, text    -- of the last log
local logged, taken

-- The reply to a batch of `count` logs, or an error, which may be raised. If it needs `extras` and has none: nil, and
-- the number of the log that needs them. `done`: the number of logs that were read before; the last of these is
-- blocked. All values are arguments: as upvalues, Lua would make each of them anew at each call.
local function decide(logs, count, requests, names, extras, now, read, add, uncommon, done)
  local admitted, more = requests, extras
  for i = 1, count do
    local log = logs[i]
    local found
    if i > done then
      found = read(log)
    else
      found = i == done or nil
    end
    if found == true then
      if not extras then
        return nil, i
      end
      extras.blocked(log)
      more = extras
    elseif found then
      return found
    end
    local fits = (log.options or log.blocked) and extras.fits(log, names, requests) or log.capacity - log.used
    if fits < admitted then
      admitted = fits > 0 and fits or 0
    end
  end

  for i = 1, count do
    if admitted > 0 or logs[i].changed then
      local failed = add(logs[i], names, 1, admitted)
      if failed then
        return failed  -- no memory: already the first log fails
      end
    end
  end
  local held, permits
  if more and admitted < requests then
    local failed
    admitted, failed, held = extras.hold(logs, count, names, admitted, requests)
    if failed then
      return failed
    end
  elseif more then
    permits = extras.give_permits(logs, count, ARGV[names + 1])
  end

  local reply = { admitted, now, 0, 0, 0 }
  for i = 1, count do
    local log = logs[i]
    local room = log.capacity - log.used
    local reset = log.frees and log.frees - now or log.window
    local retry = 0
    if admitted < requests then
      if more then
        retry = extras.wait(log)
      elseif room < 1 then
        retry = log.limit < 1 and -1 or math.max(room == 0 and reset or uncommon().room_at(log, 1 - room) - now, 1)
      end
    end
    reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = room > 0 and room or 0, reset, retry
  end
  for i = 1, held and #held or 0 do
    reply[#reply + 1] = held[i]
  end
  for i = 1, permits and count or 0 do
    reply[#reply + 1] = permits[i]
  end
  return reply
end

-- A time that no decision of these logs is later than (ms).
local latest_of = not own_clock and function(logs, count)
  local floor = 0
  for i = 1, count do
    floor = math.max(floor, logs[i].over and 0 or latest(logs[i]))
  end
  return floor
end

-- Takes back the request of this name from the first `count` logs. Returns the reply to it.
local take_back_all = taking_back and function(count, name)
  -- Takes out entries of so many units of the cost.
  local function take_out(log, cost, id)
    local options = log.options
    log.options = {}
    for word, value in pairs(options) do
      log.options[word] = value
    end
    log.options.cost = cost
    local gone, blocked = uncommon().take_back(log, name, id, logged, taken)
    log.options = options
    return gone, blocked
  end
  local function take_back(log)
    local id = log.options.ids and ARGV[log.ids + 1] or ''
    if not own_clock then
      begin_at(latest(log))
      log.found = false
    end
    local options = log.options
    local cost, settle = options.cost, options.settle
    options.ahead = math.huge  -- no entries are moved
    local changed, blocked
    if not settle then
      changed, blocked = uncommon().take_back(log, name, id, logged, taken)
    elseif settle <= cost then
      changed, blocked = take_out(log, cost - settle, id)
    else
      local owe = uncommon().owe or error({ err = 'ERR no log of this algorithm can settle a cost' })
      changed = owe(log, settle - cost, logged, taken, options.ended and math.max(called - options.ended, 0))
    end
    if changed and blocked then
      extras.end_block(log, taken)
    end
    return changed
  end

  local changed, refused = 0, nil
  for i = 1, count do
    local options = logs[i].options
    local ahead = options.ahead
    local fine, is_changed = protect(take_back, logs[i])
    options.ahead = ahead  -- other logs may share these options
    if not fine then
      refused = refused or extras.error_of(is_changed)
    elseif is_changed then
      changed = changed + 1
    end
  end
  return refused or changed
end

while before < #KEYS do
  if taking_back then
    logged, taken, at = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), at + 2
  end
  local count, requests = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local names = at + 1
  local refused, more, overridden = nil, false, false

  at = at + 2 + (requests > 0 and requests or 1)
  for i = 1, count do
    local log = logs[i]
    if not log then
      log = { key = '', limit = 0, capacity = 0, window = 0, cap = 0, ttl = '', used = 0, frees = 0, options = false,
        blocked = false, changed = false }
      logs[i] = log
    end
    if ARGV[at] == '' then
      at = at + 1
    else
      limit, window, cap = tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
      ttl, text = ARGV[at + 3], ARGV[at + 4]
      at = at + 5
    end
    log.key, log.limit, log.capacity, log.window, log.cap = KEYS[before + i], limit, limit, window, cap
    if log.blocked or log.block_length then
      log.blocked, log.block_length = false, nil
    end
    log.ttl, log.options = ttl, false
    if text ~= '' or taking_back then
      extras = extras or make_extras(call, format, read, add, uncommon, most_entries, permit_life)
      local options, kept_by_none = extras.options(text)
      refused = refused or kept_by_none
      log.options, log.capacity, log.cap = options, options.burst or limit, math.ceil(cap / options.sample)
      log.ids = at - 1
      at = at + (options.ids and requests or 0)
      if options.told then
        log.record, at = ARGV[at], at + 1
      end
      overridden = overridden or options.override
      more = true
    end
  end

  if taking_back then
    replies[#replies + 1] = refused or take_back_all(count, ARGV[names + 1])
  else
    local fine, reply, blocked = true, refused, 0
    if overridden then
      records = records or overrides(read, add)
      reply = reply or records.obey(logs, count, called)
    end
    if not reply and not own_clock then
      fine, reply = protect(latest_of, logs, count)
      if fine then
        begin_at(reply)
        reply = nil
      end
    end
    if fine and not reply then
      local source = overridden and records
      fine, reply, blocked = protect(decide, logs, count, requests, names, more and extras, now,
        source and source.read or read, source and source.add or add, uncommon, 0)
    end
    if fine and not reply then  -- a block without the option: another location or node has set it
      extras = extras or make_extras(call, format, read, add, uncommon, most_entries, permit_life)
      fine, reply = protect(decide, logs, count, requests, names, extras, now, read, add, uncommon, blocked)
    end
    if not fine then
      extras = extras or make_extras(call, format, read, add, uncommon, most_entries, permit_life)
      reply = extras.error_of(reply)
    end
    if overridden then
      records.tell(reply, logs, count, now)
    end
    batches = batches + 1
    replies[places and places[batches] or batches] = reply
  end
  before = before + count
end

return taking_back and #replies == 1 and replies[1] or replies
