-- Overrides (option override of lua/decide.lua): a record beside a log changes the limit of its key while nginx runs. It
-- is a STRING at the key of the log and ':override'. `sliding-log set` writes it, and src/limit/override_record.hpp reads
-- its form:
--   limit=500 until=1795342930906 since=1795339330906 by=alice why=any text
-- `allow` or `deny` may stand in place of the limit. until: when it ends (ms), 0 if it does not. Where no record is in
-- force, the options allow and deny of the log decide in the same way: a record of its whole NAME says so.
--
-- overrides(read, add) returns these, for a batch of logs:
--   obey(logs, count, now)         reads their records and lets the logs obey. An error: a record is on another node
--   read(log), add(log, ...)       as those of the algorithm, but do not touch a log whose record allows or denies
--   tell(reply, logs, count, now)  adds two numbers for each log to the reply, behind those that it has: what its record
--                                  says, and when it ends. The former is a limit, or one of the numbers below
-- Fields of a log: over (its record allows or denies: limit and capacity are set accordingly), record (the caller has
-- read it: its text, '' if there is none).

local read_log, add_to_log = ...
local match, floor, ceil, min, max = string.match, math.floor, math.ceil, math.min, math.max
local NONE, ALLOW, DENY, BROKEN, FORBIDDEN = -1, -2, -3, -4, -5
local it = {}

-- What the text of a record says, and when it ends.
local function said_by(text, now)
  if text == '' then
    return NONE, 0
  end
  local what, till = match(text, '^(%l+=?%d*) until=(%d+) since=%d+ by=%S* why=')
  local limit = what and match(what, '^limit=(%d+)$')
  limit = limit and #limit <= 13 and tonumber(limit)
  local code = limit and limit <= LARGEST_COUNT and limit or what == 'allow' and ALLOW or what == 'deny' and DENY
  if not code or #till > 15 then
    -- the second one is of Redis 7.0, the third of later versions and of Valkey
    local is_error = string.find(text, '^NOPERM ') or string.find(text, '^ERR The user executing the script ')
      or string.find(text, '^ERR ACL failure in script: ')
    return is_error and FORBIDDEN or BROKEN, 0
  end
  till = tonumber(till)
  if till > 0 and till <= now then
    return NONE, 0
  end
  return code, till
end

-- The text of the log's record, or the error; nil: its key is on another node.
local function record_of(log)
  local record = redis.pcall('GET', log.key .. ':override')
  if type(record) ~= 'table' then
    return record or ''
  end
  return not string.find(record.err, 'non local key', 1, true) and record.err or nil
end

-- The burst of a log with another limit: it keeps its proportion to the limit.
local function burst_of(log, limit)
  local burst = log.options.burst
  return (burst == log.limit or log.limit == 0) and limit or min(ceil(burst * limit / log.limit), LARGEST_COUNT)
end

function it.obey(logs, count, now)
  for i = 1, count do
    local log = logs[i]
    local options = log.options
    log.said, log.till = NONE, 0
    if options and options.override then
      local record = options.told and log.record or not options.told and record_of(log)
      if not record then
        return { err = 'TRYAGAIN the override is on another node' }
      end
      local said, till = said_by(record, now)
      local of_name = options.allow or options.deny
      if said < 0 and said ~= ALLOW and said ~= DENY and of_name and (of_name == 0 or of_name > now) then
        said, till = options.allow and ALLOW or DENY, of_name
      end
      log.said, log.till, log.asked = said, till, log.capacity
      if said == ALLOW or said == DENY then
        local room = said == ALLOW and math.huge or 0
        log.over, log.limit, log.capacity, log.used, log.frees = true, room, room, 0, false
      elseif said >= 0 then
        log.capacity = options.burst and burst_of(log, said) or said
        log.limit = said
        local most = said * (1 + ceil(options.ahead / log.window))  -- reservations are entries, too
        log.cap = log.cap > 0 and max(log.cap, ceil(most / options.sample)) or 0
      end
    end
  end
end

function it.read(log)
  if not log.over then
    return read_log(log)
  end
end

function it.add(log, ...)
  if not log.over then
    return add_to_log(log, ...)
  end
end

function it.tell(reply, logs, count, now)
  local at = 3 + 3 * count
  for i = count, 1, -1 do
    local log = logs[i]
    if reply.err then
      log.over = false
    else
      if log.over then
        local denies = log.said == DENY
        local wait = not denies and 0 or log.till == 0 and -1 or min(max(floor(log.till - now), 1), LONGEST_TIME)
        reply[3 * i], reply[3 * i + 1], reply[3 * i + 2] = denies and 0 or log.asked, wait > 0 and wait or log.window, wait
        log.over = false
      end
      table.insert(reply, at, log.till)
      table.insert(reply, at, log.said)
    end
  end
end

return it
