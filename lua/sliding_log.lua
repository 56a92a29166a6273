-- The exact sliding log (algorithm=log). lua/decide.lua has the contract of a call, and of what this file returns.
--
-- A log is a ZSET with one entry for each request, or several if its cost is higher: member = the id, or the request's
-- unique name; score = time of arrival or reservation (ms). An entry is in the window if now - window < score.
-- If an id is taken, the entry is <id>~<name>. The second entry of a request is <name>~2 or <id>~<name>~2. If two
-- requests have the same id, the entry under the id alone is identified by its time: an id may return after its first
-- entry left. A blocked log has one more member, "blocked for <ms> ms". Its score is the negated end of the block;
-- entries have no negative scores.
--
-- Entries older than the window, and a block that is over, are stale. They never count, and at most AT_ONCE of them are
-- removed in a call, so that no log delays others. The last member is never removed while a key is read: in a cluster a
-- removed key of a migrating hash slot cannot be touched again. So a log that is all stale is removed after something
-- was added, or by its time to live.
--
-- If this server's own clock stepped back, PEXPIRE GT cannot extend the time to live. Only then, and on a denial, the
-- newest entry is read. At most AT_ONCE entries ahead of now are moved in a call too; the others count as entries of
-- now.
--
-- Cost in redis.calls, of 1 to 2 us each: TIME, and per log ZRANGE, ZCARD, ZADD, PEXPIRE; two ZRANGE and
-- ZREMRANGEBYSCORE more if entries leave the window. Numbers are passed as text, since Redis 7.0 takes 0.5 us to write
-- a number argument as a double and read it back.

local now, now_text, own_clock, permit_life = ...

local call, pcall, format = redis.call, redis.pcall, string.format

local AT_ONCE, AT_ONCE_TEXT = 1000, '1000'

local BLOCKED = '^blocked for (%d+) ms~*$'

local most_entries = 1000

local NOT_OURS = 'WRONGTYPE not a log of algorithm=log or sampled'

-- Fields of a log: first: number of members before the oldest entry of the window; leaving: number of these to remove
-- when something is added; newest: score of the last member, if latest() has read it (else nil).

local made
local function uncommon()
  if made then
    return made
  end
  local it = {}
  made = it

  local function score_of(log, rank)
    return tonumber(call('ZRANGE', log.key, rank, rank, 'WITHSCORES')[2])
  end

  -- The number of entries of the request with that name.
  function it.entries(log, _)
    return log.options and log.options.cost or 1
  end

  -- The rank of the oldest entry of the window; `count` if there is none. The first `known` members are not in the
  -- window. It is usually near, so the steps begin with 1.
  local function rank_of_oldest(log, known, count)
    local low, high, step = known, count, 1
    while low < high do
      local rank = math.min(low + step - 1, math.floor((low + high) / 2))
      if score_of(log, rank) <= now - log.window then
        low, step = rank + 1, 2 * step
      else
        high = rank
      end
    end
    return low
  end

  -- Prunes a log that begins with a block, or has more than AT_ONCE stale entries, or only stale ones; `stale` of them
  -- are known. Returns the oldest entry of the window, the number of entries in it, and whether the block lasts.
  function it.prune(log, member, score, count, stale)
    local length = score < 0 and (tonumber(string.match(member, BLOCKED)) or error({ err = NOT_OURS }))
    local blocked = length and -score > now
    if blocked then
      log.blocked, log.block_length = -score, length
    end
    local front = blocked and 1 or 0
    log.first = rank_of_oldest(log, math.max(front, stale), count)
    log.leaving = math.min(log.first - front, AT_ONCE)
    count = count - log.first
    if blocked or count > 0 then
      it.remove_stale(log)
    end
    local oldest = count > 0 and score_of(log, log.first) or nil
    return oldest, count, blocked
  end

  -- A block that lasts is kept.
  function it.remove_stale(log)
    if log.leaving > 0 then
      local front = log.blocked and 1 or 0
      call('ZREMRANGEBYRANK', log.key, front, front + log.leaving - 1)
      log.first, log.leaving = log.first - log.leaving, 0
    end
  end

  function it.block(log, length, till)
    local member = format('blocked for %d ms', length)
    while (tonumber(call('ZSCORE', log.key, member)) or -1) > 0 do
      member = member .. '~'  -- an entry has this name: the id of a request
    end
    local is_new = call('ZADD', log.key, format('%d', -till), member) == 1
    if is_new then
      log.first = log.first + 1
    elseif log.leaving > 0 then
      log.leaving = log.leaving - 1  -- the stale block had this name
    end
    it.remove_stale(log)
  end

  function it.unblock(log)
    log.blocked = false
    call('ZREMRANGEBYRANK', log.key, '0', '0')
  end

  -- The latest time that a reservation or a permit may have.
  function it.farthest(log)
    return now + math.max(log.options and log.options.ahead or 0, permit_life(log.window))
  end

  -- Entries further ahead of now than reservations and permits may be become entries of now. While some are left, the
  -- time to live is so long that PEXPIRE GT cannot extend it.
  function it.step_back(log, farthest)
    local ahead = call('ZRANGEBYSCORE', log.key, format('(%d', farthest), '+inf', 'LIMIT', '0', AT_ONCE_TEXT)
    local moved = { 'ZADD', log.key }
    for i = 1, #ahead do
      moved[2 * i + 1], moved[2 * i + 2] = now_text, ahead[i]
    end
    if #ahead > 0 then
      call(unpack(moved))
    end
    call('PEXPIRE', log.key, #ahead < AT_ONCE and log.ttl or format('%d', 2 * log.ttl))
  end

  -- The score at a rank, rounded up to a whole ms; entries too far ahead count as entries of now.
  local function score_at(log, rank)
    local score = score_of(log, rank) or now
    return score <= it.farthest(log) and math.ceil(score) or now
  end

  function it.room_at(log, missing)
    local leave = math.ceil(missing / (log.options and log.options.sample or 1))
    return score_at(log, leave - 1 + log.first) + log.window
  end

  function it.newest(log)
    return score_at(log, -1)
  end

  -- Adds the entries of a request after the first one. Returns an error, if any.
  local function add_others(log, score, name, entries)
    for from = 2, entries, 1000 do
      local arguments = { 'ZADD', log.key }
      for i = from, math.min(from + 999, entries) do
        arguments[#arguments + 1] = score
        arguments[#arguments + 1] = name .. '~' .. i
      end
      local reply = pcall(unpack(arguments))
      if type(reply) ~= 'number' then
        return reply
      end
    end
  end

  -- Adds requests with ids or costs, at most `longest` entries of each. Returns the number of entries, or an error.
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
          member = member .. '~' .. name  -- the id is in the log already: both entries stay
          new = pcall('ZADD', key, 'NX', score, member)
        end
        if type(new) ~= 'number' then
          return new
        end
        local failed = add_others(log, score, id == '' and name or id .. '~' .. name, entries)
        if failed then
          return failed
        end
        added = added + entries
      end
    end
    return added
  end

  -- Adds `more` entries under other names: their names were in the log already, and both entries stay.
  function it.add_again(log, names, from, to, score, more)
    for j = from, to do
      local name = ARGV[names + j]
      if more > 0 then
        more = more - call('ZADD', log.key, 'NX', score, name .. '~' .. name)
      end
    end
  end

  -- The maximum number of entries of a log after denied requests were added.
  function it.longest(log)
    return log.cap > 0 and math.max(log.cap, log.used / log.options.sample) or math.huge
  end

  -- Removes the oldest entries until no more than `longest` are left.
  function it.cut(log, longest)
    local over = log.used / log.options.sample - longest
    if over > 0 then
      call('ZREMRANGEBYRANK', log.key, log.first, log.first + over - 1)
      log.used = longest * log.options.sample
      log.frees = score_at(log, log.first) + log.window
    end
  end

  -- The score of a member, or nil. By ZADD, since ACL rules seldom permit ZSCORE.
  local function score_of_member(log, member)
    return tonumber(call('ZADD', log.key, 'XX', 'INCR', '0', member) or nil)
  end

  -- The first entry of a request with an id: the member with both names; or the member with the id alone, if it has the
  -- request's time, or an earlier one because the clock has stepped back since.
  local function first_of(log, name, id, logged, taken)
    call('ZREMRANGEBYRANK', log.key, '1', '0')  -- Redis does not refuse a script for lack of memory once it has written
    if score_of_member(log, id .. '~' .. name) then
      return id .. '~' .. name
    end
    local score = score_of_member(log, id)
    local is_own = score == logged or score and score > 0 and score < logged and own_clock and now < taken
    return is_own and id or nil
  end

  function it.permit(log, name, permits, at)
    local entries, score = permits * log.options.cost, format('%d', at)
    local added = { 'ZADD', log.key, 'NX', score, name }
    for i = 2, entries do
      added[2 * i + 2], added[2 * i + 3] = score, name .. '~' .. i
    end
    local reply = pcall(unpack(added))
    if type(reply) ~= 'number' then
      return reply
    end
    call('PEXPIRE', log.key, log.ttl)  -- without a request that was added before
    log.used = log.used + entries
  end

  -- Removes all entries in one command, the last one for this key unless a block is left.
  function it.take_back(log, name, id, logged, taken)
    local entries = it.entries(log, name)
    if entries == 0 or logged <= now - log.window then
      return false
    end
    local blocked = (score_of(log, 0) or 0) < 0
    local leaving = { 'ZREM', log.key }
    if id == '' then
      leaving[3], leaving[4] = name, name .. '~' .. name
    else
      leaving[3] = first_of(log, name, id, logged, taken)
      name = id .. '~' .. name
    end
    for i = 2, entries do
      leaving[#leaving + 1] = name .. '~' .. i
    end
    local gone = #leaving > 2 and call(unpack(leaving)) > 0
    return gone, gone and blocked
  end

  return it
end

-- For a caller's clock only.
local latest = not own_clock and function(log)
  local head = pcall('ZRANGE', log.key, '0', '0', 'WITHSCORES')
  local oldest = tonumber(head[2])
  log.found, log.newest = head, nil
  if not oldest then
    return 0
  end
  log.newest = tonumber(call('ZRANGE', log.key, '-1', '-1', 'WITHSCORES')[2])
  local length = oldest < 0 and tonumber(string.match(head[1], BLOCKED)) or math.huge
  return math.max(log.newest - (log.options and log.options.ahead or 0), -oldest - length)
end

local moved = ARGV.moved or false  -- the logs whose time to live a plain call has just moved on, as read() does

local function read(log)
  local key, window, options = log.key, log.window, log.options
  local head, newest = log.found, nil
  if head then
    newest, log.found = log.newest, false
  else
    head = pcall('ZRANGE', key, '0', '0', 'WITHSCORES')
  end
  if head.err then
    return head
  end
  log.first, log.leaving = 0, 0
  local oldest, count, blocked = tonumber(head[2]), 0, nil
  if oldest then
    count = call('ZCARD', key)
    if oldest <= now - window then
      local last, stale  -- number of stale members, if `last` is stale
      if count > AT_ONCE then
        last, stale = tonumber(call('ZRANGE', key, AT_ONCE_TEXT, AT_ONCE_TEXT, 'WITHSCORES')[2]), AT_ONCE + 1
      else
        newest = newest or tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
        last, stale = newest, count
      end
      if oldest >= 0 and last > now - window then
        count = count - call('ZREMRANGEBYSCORE', key, '0', format('%d', now - window))
        oldest = tonumber(call('ZRANGE', key, '0', '0', 'WITHSCORES')[2])
      else
        oldest, count, blocked = uncommon().prune(log, head[1], oldest, count, oldest >= 0 and stale or 0)
      end
    end
  end
  local is_moved = moved and moved[key]
  if is_moved then
    moved[key] = nil
  end
  if oldest and (count >= log.limit or oldest > now or not own_clock
      or not is_moved and call('PEXPIRE', key, log.ttl, 'GT') == 0) then
    newest = newest or tonumber(call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2])
    local farthest = newest > now and uncommon().farthest(log)
    if farthest and newest > farthest then
      uncommon().step_back(log, farthest)
      oldest = math.min(oldest, now)
    end
  end
  log.used = options and count * options.sample or count
  log.frees = oldest and oldest + window or false
  return blocked or nil
end

local function add(log, names, from, to, at, denied)
  local key, options = log.key, log.options
  local score = at and format('%d', at) or now_text
  local added, longest
  if options then
    longest = denied and uncommon().longest(log) or math.huge
    added = uncommon().add(log, names, from, to, score, longest)
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
    uncommon().add_again(log, names, from, to, score, to - from + 1 - added)
    added = to - from + 1
  end
  if added > 0 then
    if log.leaving > 0 then
      uncommon().remove_stale(log)
    end
    if not log.frees or not own_clock or log.used >= log.limit then
      call('PEXPIRE', key, log.ttl)  -- not GT: a new log has no time to live, which GT takes for the longest
    end
    local leaves = (at or now) + log.window
    if not log.frees or log.frees > leaves then
      log.frees = leaves
    end
    log.used = log.used + (options and added * options.sample or added)
    if denied then
      uncommon().cut(log, longest)
    end
  end
end

local set_now = not own_clock and function(ms, text)
  now, now_text = ms, text
end

return read, add, uncommon, most_entries, latest, set_now
