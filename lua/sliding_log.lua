-- The exact sliding log (algorithm=log). lua/decide.lua, which follows this in the script, has the contract of a call.
--
-- A log is a ZSET with one entry for each request, or several for one of that cost: member = the id, else the request's
-- unique name; score = arrival, or the slot it was given (ms). An entry is in the window when now - window < score.
-- Where an id is taken, its entry is <id>~<name>; the second entry of a request is <name>~2 or <id>~<name>~2. Of two
-- requests of one id the plain one is told by its time: an id may come back when its first entry has left.
-- A blocked log has one more member, "blocked for <ms> ms", its score minus the time when that ends, which no entry is.
--
-- A step back of this server's own clock shows in the time to live, which PEXPIRE GT then cannot move on; only then, on a
-- denial, and for a caller's clock, the newest entry is looked at.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log ZRANGE, ZCARD, ZADD, PEXPIRE, and while entries leave
-- the window ZREMRANGEBYSCORE and ZRANGE. Numbers are given as text, since Redis 7.0 spends 0.5 us on writing a number
-- argument as a double and reading it back.

local call, pcall, format = redis.call, redis.pcall, string.format

local most_entries = 1000

local NOT_OURS = 'WRONGTYPE not a log of algorithm=log or sampled'

local now, now_text, own_clock

local made
local function rarely()
  if made then
    return made
  end
  local it = {}
  made = it

  -- How many entries a request of that name has.
  function it.entries(log, name)
    return log.options and log.options.cost or 1
  end

  -- The block that the first member tells of: true while it lasts; nil where it tells of none.
  function it.is_blocked(log, member, score)
    local length = tonumber(string.match(member, '^blocked for (%d+) ms~*$'))
    if not length then
      return nil
    elseif -score <= now then
      call('ZREM', log.key, member)
      return false
    end
    log.blocked, log.block_length = -score, length
    return true
  end

  function it.block(log, length, till)
    local member = format('blocked for %d ms', length)
    while (tonumber(call('ZSCORE', log.key, member)) or -1) > 0 do
      member = member .. '~'  -- that is somebody's id
    end
    call('ZADD', log.key, format('%d', -till), member)
  end

  function it.unblock(log)
    log.blocked = false
    call('ZREMRANGEBYRANK', log.key, '0', '0')
  end

  -- Entries further ahead of now than a reservation become entries of now.
  function it.step_back(log, farthest)
    local ahead = call('ZRANGEBYSCORE', log.key, format('(%d', farthest), '+inf')
    for i = 1, #ahead do
      call('ZADD', log.key, now_text, ahead[i])
    end
    call('PEXPIRE', log.key, log.ttl)
  end

  -- Whole, since what is added up there shall be no fraction of a ms away; what is too far ahead is to be of now.
  local function score_at(log, rank)
    local score = tonumber(call('ZRANGE', log.key, rank, rank, 'WITHSCORES')[2]) or now
    return score <= now + (log.options and log.options.ahead or 0) and math.ceil(score) or now
  end

  function it.room_at(log, missing)
    local leave = math.ceil(missing / (log.options and log.options.sample or 1))
    return score_at(log, leave - 1 + (log.blocked and 1 or 0)) + log.window
  end

  function it.newest(log)
    return score_at(log, -1)
  end

  -- ZADD (with a score) or ZREM of a request's entries behind its first: how many, or an error.
  local function others(log, command, score, name, entries)
    local done = 0
    for from = 2, entries, 1000 do
      local arguments = { command, log.key }
      for i = from, math.min(from + 999, entries) do
        arguments[#arguments + 1] = score
        arguments[#arguments + 1] = name .. '~' .. i
      end
      local reply = pcall(unpack(arguments))
      if type(reply) ~= 'number' then
        return reply
      end
      done = done + reply
    end
    return done
  end

  -- Entries of their own names or numbers, at most `longest` of a request: how many, or an error.
  function it.add(log, names, from, to, score, longest)
    local key, added = log.key, 0
    for j = from, to do
      local name = ARGV[names + j]
      local id = log.options and log.options.ids and ARGV[log.ids + j] or ''
      local entries = math.min(it.entries(log, name), longest)
      if entries > 0 then
        local member = id == '' and name or id
        local new = pcall('ZADD', key, 'NX', score, member)
        while new == 0 do
          member = member .. '~' .. name  -- the id is in the log already: none is lost, both stay
          new = pcall('ZADD', key, 'NX', score, member)
        end
        if type(new) ~= 'number' then
          return new
        end
        new = others(log, 'ZADD', score, id == '' and name or id .. '~' .. name, entries)
        if type(new) ~= 'number' then
          return new
        end
        added = added + entries
      end
    end
    return added
  end

  -- `more` entries, since so many names were in the log already: both stay, none is lost.
  function it.add_again(log, names, from, to, score, more)
    for j = from, to do
      local name = ARGV[names + j]
      if more > 0 then
        more = more - call('ZADD', log.key, 'NX', score, name .. '~' .. name)
      end
    end
  end

  -- How many entries a log may have when denied attempts have been added.
  function it.longest(log)
    return log.cap > 0 and math.max(log.cap, log.used / log.options.sample) or math.huge
  end

  -- Of more entries than that the oldest leave.
  function it.cut(log, longest)
    local over = log.used / log.options.sample - longest
    if over > 0 then
      local first = log.blocked and 1 or 0
      call('ZREMRANGEBYRANK', log.key, first, first + over - 1)
      log.used = longest * log.options.sample
      log.frees = score_at(log, first) + log.window
    end
  end

  -- The entry under an id alone, which is the request's own if it is of its time, or of an earlier one where the clock has
  -- stepped back since and brought it there. ZADD tells its score, since ZSCORE takes a right that few have given.
  local function take_plain(log, id, logged, taken)
    local score = tonumber(call('ZADD', log.key, 'XX', 'INCR', '0', id) or nil)
    local is_own = score == logged or score and score > 0 and score < logged and now < taken
    return is_own and call('ZREM', log.key, id) == 1
  end

  function it.take_back(log, name, id, logged, taken)
    local key, entries = log.key, it.entries(log, name)
    if entries == 0 or logged <= now - log.window then
      return false
    end
    local gone
    if id == '' then
      gone = call('ZREM', key, name) == 1 or call('ZREM', key, name .. '~' .. name) == 1
      gone = others(log, 'ZREM', nil, name, entries) > 0 or gone
    else
      name = id .. '~' .. name
      gone = call('ZREM', key, name) == 1 or take_plain(log, id, logged, taken)
      gone = others(log, 'ZREM', nil, name, entries) > 0 or gone
    end
    return gone, gone and (tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2]) or 0) < 0
  end

  return it
end

local function read(log)
  local key, window, options = log.key, log.window, log.options
  local head = pcall('ZRANGE', key, '0', '0', 'WITHSCORES')
  if head.err then
    return head
  end
  local oldest, count = tonumber(head[2]), 0
  local first = 0  -- where the oldest entry stands
  if oldest and oldest <= now - window then
    if oldest < 0 then
      local blocked = rarely().is_blocked(log, head[1], oldest)
      if blocked == nil then
        return { err = NOT_OURS }
      end
      first = blocked and 1 or 0
    end
    call('ZREMRANGEBYSCORE', key, '0', format('%d', now - window))
    oldest = tonumber(call('ZRANGE', key, first, first, 'WITHSCORES')[2])
    if oldest and oldest < 0 then
      return { err = NOT_OURS }
    end
  end
  if oldest then
    count = call('ZCARD', key) - first
    if count >= log.limit or oldest > now or not own_clock or call('PEXPIRE', key, log.ttl, 'GT') == 0 then
      local farthest = now + (options and options.ahead or 0)
      if tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2]) > farthest then
        rarely().step_back(log, farthest)
        oldest = math.min(oldest, now)
      end
    end
  end
  log.used = options and count * options.sample or count
  log.frees = oldest and oldest + window or false
  return first == 1 or nil
end

local function add(log, names, from, to, at, denied)
  local key, options = log.key, log.options
  local score, added, longest = at and format('%d', at) or now_text, nil, nil
  if options then
    longest = denied and rarely().longest(log) or math.huge
    added = rarely().add(log, names, from, to, score, longest)
  elseif from == to then
    added = pcall('ZADD', key, 'NX', score, ARGV[names + from])
  else
    local entries = { 'ZADD', key, 'NX' }
    for j = from, to do
      entries[#entries + 1], entries[#entries + 2] = score, ARGV[names + j]
    end
    added = pcall(unpack(entries))
  end
  if type(added) ~= 'number' then
    return added
  end
  if not options and added <= to - from then
    rarely().add_again(log, names, from, to, score, to - from + 1 - added)
    added = to - from + 1
  end
  if not log.frees or not own_clock or log.used >= log.limit then
    call('PEXPIRE', key, log.ttl)  -- GT would take the "none" of a log that begins for the longest
  end
  if added > 0 then
    local leaves = (at or now) + log.window
    if not log.frees or log.frees > leaves then
      log.frees = leaves
    end
    log.used = log.used + (options and added * options.sample or added)
    if denied then
      rarely().cut(log, longest)
    end
  end
end
