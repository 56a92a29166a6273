-- The frame of all algorithms: a request is admitted when every one of its logs has room. A log is what the algorithm
-- keeps at one key. In a script the algorithm's file stands before this one, as the function `algorithm`.
--
-- One call decides many batches, one after the other. A batch is one or more requests that ask the same of the same
-- logs; of them the first ones that fit are admitted, each by all of the batch's logs or by none.
--
-- KEYS   the logs of all batches
-- ARGV   [1] now in milliseconds, or '' to take this server's clock, then for each batch:
--          how many logs, how many requests, and for each request a name that no other has, '' where the algorithm
--            asks for none,
--          and for each log: limit, window (ms), cap (entries, 0 = none), time to live (ms), options, or one '' for all
--            five when they are those of the log before,
--            and with the option ids an id per request, to be its entry's name ('' = none)
-- Reply  for each batch, or an error, which is of this batch alone:
--          { how many are admitted, now, then three per log: remaining, reset (ms), retry (ms),
--            then for each of the last ones admitted that is held: ms until its slot, ascending }
--        remaining: what is left of the limit after the last request admitted; for one admitted before it and not held,
--                   its cost more for each that was admitted in between and not held
--        reset:     until more of the limit becomes available; the window itself when all of it is
--        retry:     for a request that was not admitted: until this log has room for it; 0 when it has, -1 when it never
--                   will. All 0 when all were admitted
-- or
-- ARGV   'take back', now or '', when its entries are of (ms), when it was decided (ms: before that, where it was held),
--        then one batch of one request, as above. To be sent once for a request; where entries have names, again changes
--        nothing, and where nobody knows its time, that may be one to come, and the decision's 0
-- Reply  how many logs it left
--
-- options are '' mostly, or words in this order, a blank between them:
--   ids          entries have names of their own
--   cost=5       entries that a request takes, all or none; 0 only looks
--   count=all    a denied request is logged, too, as far as cap allows
--   delay=2000   a request over the limit may reserve the first slot (ms), behind those that came before
--   ahead=5000   how far ahead of now an entry of this log may be (ms): a reservation of any request
--   block=60000  a log that denies denies for so long (ms)
--   burst=100    token_bucket.lua: its size. Always there
--   sample=10    sampled_log.lua: one in so many is logged. Always there
--
-- Nothing is added before every log of the batch was read, so a key of a wrong type, or with contents that no log has,
-- leaves the others as they were. Whatever a key holds, a batch's reply is such numbers or an error, and nothing of it is
-- mended but what the clock may have made of it.
-- Where several logs hold a request it waits for the last of its slots, and is an entry of that time in all of them. A
-- log without room denies also where only another one had no slot in time: its retry tells when there is room now.
--
-- Limit, cap and cost may be others for the next who asks the same log: another place, or a node that has another
-- configuration for a while. So nobody drops what a larger limit still needs. Reading drops what has left the window and
-- nothing else; the youngest `limit` entries alone say whether there is room and when, however long the log is. Only denied
-- attempts that count are bounded by cap: when they are added the oldest entries leave, until no more are left than cap,
-- or than there were before. Each that leaves was replaced by a newer one, so to no limit the log looks emptier.
--
-- Taking back takes out what the request itself logged, as it was logged then: never what another one did later. What is
-- not there any more changes nothing. A block ends with it when it began since the request was decided, and the log then
-- has room for such a request: whoever was denied meanwhile was so by an attempt that did not count in the end.
--
-- When the clock steps back (a fail-over to a slower one), entries further ahead of now than a reservation may be become
-- entries of now: each still counts, and leaves at most one window later. A block lasts no longer than when it began, and
-- an entry that was made before the step counts as older than it.
--
-- A caller's clock does not step back in a log: the latest decision there is a floor for the time of the next one, so now
-- may be later than the caller said. A reservation is none; where it looks like a decision, that may be as much earlier as
-- reservations are ahead. By whoever's clock is behind nothing leaves such a log meanwhile; but a denial does not renew its
-- time to live, which passes by this server's clock.
--
-- A slot of a cluster that is on its way has the keys here that have not left yet, and a key that a script has emptied is
-- gone. So no script deletes a key that it may touch again: what is stale leaves only where something stays, else behind
-- what is added.
--
-- algorithm(now, now_text, own_clock) is called once: now in ms, the same as text, and true where it is this server's time.
-- It returns, in this order, since a table would be one more for each call to make:
--   read(log)    what is at log.key now, pruned: sets log.used, in units of the limit, and log.frees, when more of it
--                becomes available (ms; false: all of it is). An error; or true with log.blocked (when that ends, ms) and
--                log.block_length
--   add(log, names, from, to, at, denied)  writes the entries of these requests (none: from > to), whose names are
--                ARGV[names + request], of now or of the time `at`; sets used and frees. An error when there is no memory,
--                and nothing is written then. Denied: keeps to cap, as said above
--   uncommon()     what is needed uncommon, made when it is, since Lua makes functions anew at each call:
--     room_at(log, missing)      when `missing` units more will be available (ms)
--     newest(log)                no reservation is later (ms)
--     block(log, length, till)   keeps a block
--     unblock(log)               ends the block that read() found
--     take_back(log, name, id, logged, taken)   takes out what add() wrote for a request that was decided at `taken`: true
--                when something left, and whether the log is blocked
--     fits(log, names, requests) where entries are not as many as the cost: how many of the requests fit; else nil
--   most_entries how many entries a request may have at most: a guard, since its caller denies what costs more
--   latest(log)  no decision at log.key was later (ms); 0 where none is known. Asked before read(), for a caller's clock;
--                leaves what it found there in log.found
--   set_now(now, now_text)  from here on it is that time. These two for a caller's clock only, else false
-- An error is a table, as replies have it, and may also be raised.
-- A log's other fields: key, limit, capacity (limit, or the bucket's size), window, cap, ttl (text), changed (add() has to
-- write it in any case), options (parsed; false: none) and ids (id j is ARGV[ids + j]).

local call, format, protect = redis.call, string.format, pcall

local taking_back = ARGV[1] == 'take back'
local now_text = taking_back and ARGV[2] or ARGV[1]
local own_clock = now_text == ''
if own_clock then
  local time = call('TIME')
  now_text = time[1] .. format('%03d', time[2] / 1000)
end
local now = tonumber(now_text)
local read, add, uncommon, most_entries, latest, set_now = algorithm(now, now_text, own_clock)
local called, called_text = now, now_text

-- Brings now to what the call says, or to a later decision; to none that cannot be.
local begin_at = not own_clock and function(floor)
  if floor > called and floor <= 999999999999999 then
    now_text = format('%d', floor)
    now = tonumber(now_text)
  else
    now, now_text = called, called_text
  end
  set_now(now, now_text)
end

-- What options ask for beyond a limit.
local function make_extras(call, format, read, add, uncommon, most_entries)
  local it, parsed = {}, {}
  local longest_block = 366 * 86400000  -- ms, as the configuration allows
  local floor = math.floor

  -- Of an options' text. An error besides where the algorithm cannot keep a request of that cost, which would be
  -- more entries than Redis can write at once.
  function it.options(text)
    local options = parsed[text]
    if not options then
      options = { ids = false, cost = 1, count = false, delay = 0, ahead = 0, block = 0, burst = false, sample = 1 }
      for word, value in string.gmatch(text, '(%a+)=?(%w*)') do
        options[word] = tonumber(value) or true
      end
      options.keeps = options.sample >= 1 and options.cost >= 0 and options.cost / options.sample <= most_entries
      parsed[text] = options
    end
    return options, not options.keeps and { err = 'ERR no log of this algorithm can keep a request of ' .. text } or nil
  end

  -- What a batch's reply is when that was raised. By a command: its error, which Redis 7.0 raises as text. By Lua: it was
  -- a log that nobody has written.
  function it.error_of(raised)
    if type(raised) == 'table' then
      return raised
    end
    local text = tostring(raised)
    return { err = string.find(text, '^%u+ ') and text or 'ERR a log cannot be read: ' .. text }
  end

  -- The log was blocked when it was read, or is from now on. By a caller's clock its time to live says how long it has
  -- been.
  function it.blocked(log, begins)
    local length = log.block_length or -1
    if not (length >= 1 and length <= longest_block and log.blocked > now) then
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

  local function cost_of(log)
    return log.options and log.options.cost or 1
  end

  local function never_has_room(log)
    return log.limit < 1 or cost_of(log) > log.capacity
  end

  -- How many of the first requests have room now.
  function it.fits(log, names, requests)
    local cost, room = cost_of(log), log.capacity - log.used
    if log.blocked or never_has_room(log) or room < cost then
      return 0
    end
    local fits = uncommon().fits
    return fits and fits(log, names, requests) or cost == 0 and requests or floor(room / cost)
  end

  -- ms until the log has room.
  function it.wait(log)
    if never_has_room(log) then
      return -1
    end
    local missing = log.used + cost_of(log) - log.capacity
    -- 1: where numbers are so large that they are rounded
    local wait = missing > 0 and math.max(uncommon().room_at(log, missing) - now, 1) or 0
    return log.blocked and math.max(wait, log.blocked - now) or wait
  end

  -- When the log lets in one more request; nil: not in time.
  local function slot(log)
    local missing = log.used + cost_of(log) - log.capacity
    if log.blocked or never_has_room(log) then
      return nil
    elseif missing <= 0 then
      return now
    end
    local at = math.max(uncommon().newest(log), uncommon().room_at(log, missing))
    return at - now <= (log.options and log.options.delay or 0) and at or nil
  end

  -- The slot of one more request; nil with what each log says when it is denied.
  local function slot_in_all(logs, count)
    local at, slots, denied = now, {}, false
    for i = 1, count do
      slots[i] = slot(logs[i])
      denied = denied or not slots[i]
      at = slots[i] and math.max(at, slots[i]) or at
    end
    return not denied and at or nil, slots
  end

  -- The requests that do not fit now: how many are admitted by and by, an error, and what it adds to the reply.
  function it.hold(logs, count, names, admitted, requests)
    local held = {}
    while admitted < requests do
      local at, slots = slot_in_all(logs, count)
      if not at then
        it.deny(logs, count, names, admitted + 1, requests, slots)
        break
      end
      admitted = admitted + 1
      for i = 1, count do
        local failed = add(logs[i], names, admitted, admitted, at)
        if failed then
          return admitted, failed  -- no memory: the first log already refuses
        end
      end
      held[#held + 1] = at - now
    end
    return admitted, nil, held
  end

  -- The requests from `from` on are denied: by the logs that have no slot for them.
  function it.deny(logs, count, names, from, requests, slots)
    for i = 1, count do
      local log = logs[i]
      local options = log.options
      if options and options.block > 0 and not slots[i] and not log.blocked and log.limit > 0 then
        log.blocked, log.block_length = now + options.block, options.block
        uncommon().block(log, options.block, log.blocked)
        it.blocked(log, true)
      end
      if options and options.count then
        local first = from
        if log.cap > 0 and options.cost > 0 and options.sample == 1 then
          local longest = math.max(log.cap, log.used)
          first = math.max(from, requests - math.ceil(longest / options.cost) + 1)  -- the others would be cut off
        end
        add(log, names, first, requests, nil, true)
      end
    end
  end

  -- An entry of a request that was decided at `taken` has left the log, which is blocked.
  function it.end_block(log, taken)
    log.blocked = false
    local has_stepped = own_clock and now < taken
    if read(log) == true and (log.blocked - log.block_length >= taken or has_stepped) and not never_has_room(log)
        and log.capacity - log.used >= cost_of(log) then
      uncommon().unblock(log)
    end
  end

  return it
end

local KEYS, ARGV = KEYS, ARGV
local extras                            -- make_extras(), once it was needed
local logs = {}                        -- of the batch at hand; every batch uses the tables again
local replies = {}
local before = 0                       -- keys of the batches before
local at = 2                           -- where the batch's arguments begin
local limit, window, cap, ttl, text    -- of the latest log
local logged, taken

-- The reply to a batch of so many logs, or an error, or what raises one; nil where it lacks `extras`, and which log needs
-- that. `done`: so many logs were read before, the last of them is blocked. It takes what it needs as arguments: Lua would
-- make as many upvalues at each call.
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
        return failed  -- no memory: the first log already refuses
      end
    end
  end
  local held
  if more and admitted < requests then
    local failed
    admitted, failed, held = extras.hold(logs, count, names, admitted, requests)
    if failed then
      return failed
    end
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
  return reply
end

-- No decision of these logs was later (ms).
local latest_of = not own_clock and function(logs, count)
  local floor = 0
  for i = 1, count do
    floor = math.max(floor, latest(logs[i]))
  end
  return floor
end

if taking_back then
  logged, taken, at = tonumber(ARGV[3]), tonumber(ARGV[4]), 5
end

while before < #KEYS do
  local count, requests = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local names = at + 1
  local refused, more = nil, false

  at = at + 2 + requests
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
      extras = extras or make_extras(call, format, read, add, uncommon, most_entries)
      local options, kept_by_none = extras.options(text)
      refused = refused or kept_by_none
      log.options, log.capacity, log.cap = options, options.burst or limit, math.ceil(cap / options.sample)
      log.ids = at - 1
      at = at + (options.ids and requests or 0)
      more = true
    end
  end

  if taking_back then
    local function take_back(log)
      local id = log.options.ids and ARGV[log.ids + 1] or ''
      if not own_clock then
        begin_at(latest(log))
        log.found = false
      end
      local ahead = log.options.ahead
      log.options.ahead = math.huge  -- it moves no entries
      local gone, blocked = uncommon().take_back(log, ARGV[names + 1], id, logged, taken)
      if gone and blocked then
        extras.end_block(log, taken)
      end
      log.options.ahead = ahead  -- another log may have the same options
      return gone
    end
    local left = 0
    for i = 1, refused and 0 or count do
      local fine, gone = protect(take_back, logs[i])
      if not fine then
        refused = refused or extras.error_of(gone)
      elseif gone then
        left = left + 1
      end
    end
    return refused or left
  end

  local fine, reply, blocked = true, refused, 0
  if not refused and not own_clock then
    fine, reply = protect(latest_of, logs, count)
    if fine then
      begin_at(reply)
      reply = nil
    end
  end
  if fine and not reply then
    fine, reply, blocked = protect(decide, logs, count, requests, names, more and extras, now, read, add, uncommon, 0)
  end
  if fine and not reply then  -- a block began at another place
    extras = extras or make_extras(call, format, read, add, uncommon, most_entries)
    fine, reply = protect(decide, logs, count, requests, names, extras, now, read, add, uncommon, blocked)
  end
  if not fine then
    extras = extras or make_extras(call, format, read, add, uncommon, most_entries)
    reply = extras.error_of(reply)
  end
  replies[#replies + 1] = reply
  before = before + count
end

return replies
