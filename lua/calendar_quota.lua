-- The calendar quota (algorithm=quota): the requests admitted in an hour, day, week or month of UTC. lua/decide.lua has
-- the contract of a call, and of what this file returns.
--
-- The window of a log is the longest length of its period, which identifies it: 31 days are a month. Weeks begin on
-- Monday. Any other window is a period of that length; the first one began with 1970.
--
-- A log is a HASH with one field: the name of the period and the time of its first request (ms), "month 1795339330906"
-- => the number of requests admitted in that period. The time shows what a take-back may change: a count that began
-- after the request was decided has only other requests, since the log was lost in between, and is not changed.
--
-- When the clock steps back past the end of a period, the later period goes on, and requests are counted in it. A count
-- of a period that is further ahead becomes one of the present period. There are no reservations: a request that another
-- limit holds is counted when it is decided.
--
-- A log lives until its period ends, plus the slack. The time to live is set when the period begins, and with the
-- callers' clocks also by each admitted request. The field of a past period is removed after something was added.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log HGETALL and HINCRBY; PEXPIRE and HDEL when a period begins.

local now, now_text, own_clock = ...

local call, pcall, format, floor = redis.call, redis.pcall, string.format, math.floor

local most_entries = math.huge

-- Beyond this Lua's numbers are not exact.
local most_counted = 2 ^ 53

local DAY, WEEK, MONTH = 86400000, 604800000, 2678400000

local NOT_OURS = 'WRONGTYPE not a log of algorithm=quota'

-- Fields of a log: finish: when its period ends (ms); field: of the HASH, which counts what is admitted (false: none
-- yet); moved: the count of a period further ahead, which becomes one of the present period; leaving: fields to be removed
-- when something is added (false: none).

-- The start of the month of this time (ms). Years begin in March here, so that the leap day is the last day of a year.
-- 400 of them have 146,097 days; 1 March 2000, 11,017 days after 1 January 1970, begins such an era.
local function month_of(time)
  local days = floor(time / DAY)
  local of_era = (days - 11017) % 146097
  local year = floor((of_era - floor(of_era / 1460) + floor(of_era / 36524) - floor(of_era / 146096)) / 365)
  local of_year = of_era - 365 * year - floor(year / 4) + floor(year / 100)
  local month = floor((5 * of_year + 2) / 153)
  return (days - of_year + floor((153 * month + 2) / 5)) * DAY
end

-- The start of the period of this time (ms). 1970 began on a Thursday.
local function begin_of(time, window)
  if window == MONTH then
    return month_of(time)
  end
  return time - (time - (window == WEEK and 4 * DAY or 0)) % window
end

-- The end of the period that begins at this time (ms). The 32nd day of a month is in the next one.
local function end_of(begin, window)
  return window == MONTH and month_of(begin + MONTH) or begin + window
end

-- The time of the first request in the name of a field; nil: it is not a field of this algorithm.
local function first_in(field)
  local time = tonumber(string.match(field, '^%w+ (%d+)$'))
  return time and time <= LATEST_TIME and time or nil
end

local read, add
local made
local function uncommon()
  if made then
    return made
  end
  local it = {}
  made = it

  function it.room_at(log)
    return log.finish
  end

  function it.newest()
    return now
  end

  -- With one more field to be removed; no more than can be deleted at once.
  function it.with(leaving, field)
    leaving = leaving or {}
    if #leaving < 1000 then
      leaving[#leaving + 1] = field
    end
    return leaving
  end

  function it.field_of(window)
    local names = { [3600000] = 'hour', [DAY] = 'day', [WEEK] = 'week', [MONTH] = 'month' }
    return (names[window] or format('%d', window)) .. ' ' .. now_text
  end

  function it.take_back(log, _, _, _, taken)
    local key, window, left = log.key, log.window, log.options.cost
    local fields, gone = call('HGETALL', key), false
    for i = 1, #fields, 2 do
      local first, count = first_in(fields[i]), tonumber(fields[i + 1])
      if not first or not count or count < 0 then
        error({ err = NOT_OURS })
      end
      if left > 0 and first <= taken and begin_of(first, window) == begin_of(taken, window) then
        if count <= left then
          call('HDEL', key, fields[i])
        else
          call('PEXPIRE', key, '1', 'GT')  -- a script that has begun to write is not refused for want of memory
          call('HINCRBY', key, fields[i], format('%d', -left))
        end
        left = math.max(left - count, 0)
        gone = true
      end
    end
    return gone, false
  end

  function it.owe(log, more, _, taken, ended)
    local window, failed = log.window, read(log)
    if failed then
      error(failed)
    end
    more = math.min(more, MOST_OWED - log.used)
    -- the log may be in the period after that of now
    local has_left = ended and begin_of(ended, window) < begin_of(now, window)
      or not ended and end_of(begin_of(taken, window), window) < log.finish
    if more < 1 or has_left then
      return false
    end
    local options = log.options
    log.options = { cost = more }
    failed = add(log, nil, 1, 1)
    log.options = options
    return failed and error(failed) or true
  end

  return it
end

-- Made for a caller's clock only.
local latest = not own_clock and function(log)
  local fields = pcall('HGETALL', log.key)
  local time = 0
  for i = 1, #fields, 2 do
    time = math.max(time, first_in(fields[i]) or 0)
  end
  log.found = fields
  return time
end

read = function(log)
  local fields = log.found or pcall('HGETALL', log.key)
  if fields.err then
    return fields
  end
  local window = log.window
  local begin = begin_of(now, window)
  local finish = end_of(begin, window)
  local following = finish
  local used, moved, field, leaving = 0, 0, false, false
  for i = 1, #fields, 2 do
    local first, count = first_in(fields[i]), tonumber(fields[i + 1])
    if not (first and count and count >= 0 and count % 1 == 0 and count <= most_counted) then
      return { err = NOT_OURS }
    end
    local its = begin_of(first, window)
    if its == following and begin < following then
      if field then
        leaving = uncommon().with(leaving, field)
      end
      begin, finish = following, end_of(following, window)
      used, moved, field = 0, 0, false
    end
    if its == begin then
      used = used + count
      if field then
        moved, leaving = moved + count, uncommon().with(leaving, fields[i])
      else
        field = fields[i]
      end
    else
      if its > begin then
        used, moved = used + count, moved + count
      end
      leaving = uncommon().with(leaving, fields[i])
    end
  end
  if used > most_counted then
    return { err = NOT_OURS }
  end
  log.found, log.changed = false, moved > 0
  log.used, log.frees, log.finish = used, finish, finish
  log.field, log.moved, log.leaving = field, moved, leaving
end

add = function(log, _, from, to)
  local key, cost = log.key, log.options and log.options.cost or 1
  local admitted = (to - from + 1) * cost
  local more = admitted + log.moved
  if more <= 0 then
    return nil
  end
  local field = log.field or uncommon().field_of(log.window)
  local count = pcall('HINCRBY', key, field, format('%d', more))
  if type(count) ~= 'number' then
    return count
  end
  if count == more then
    call('PEXPIRE', key, format('%d', log.finish - now + log.ttl - log.window))
  elseif not own_clock then
    call('PEXPIRE', key, format('%d', log.finish - now + log.ttl - log.window), 'GT')
  end
  if log.leaving then
    call('HDEL', key, unpack(log.leaving))
  end
  log.used = log.used + admitted
  log.field, log.moved, log.leaving, log.changed = field, 0, false, false
end

local set_now = not own_clock and function(ms, text)
  now, now_text = ms, text
end

return read, add, uncommon, most_entries, latest, set_now
