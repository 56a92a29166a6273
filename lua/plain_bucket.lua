-- What lua/plain_hash.lua wants of algorithm=bucket. It reads and writes a log as lua/token_bucket.lua does, which tells its
-- form. Unusual cases: a block, a debt, a clock that has stepped back, contents that are not a bucket.

local now, now_text, call = ...

local floor, ceil, min, format = math.floor, math.ceil, math.min, string.format

-- Behind the tokens: the level, which is tokens * window, and the text of the field time.
local function find(key, limit, window, capacity)
  local fields, full = call('HGETALL', key), capacity * window
  if not fields[1] then
    return not fields.err and capacity, full, ''
  end
  local used, time = tonumber(fields[2]), tonumber(fields[4])
  if fields[1] ~= 'used' or fields[3] ~= 'time' or fields[5] or not (used and time and used >= 0 and time <= now) then
    return false
  end
  used = used - (now - time) * limit
  local level = full - (used > 0 and used or 0)
  return level >= 0 and floor(level / window), level, fields[4]
end

local function wait(cost, limit, window, level)
  return min(ceil((cost * window - level) / limit), LATEST_TIME)
end

local function add(key, cost, limit, window, capacity, ttl, level, time_text)
  local full, since = capacity * window, '.'
  if level < full then
    since = string.sub(time_text, #now_text + 1)
    if since == '.' then
      since = string.match(time_text, '^(%d+)%.$')
      since = since and format('.00000%d', since) or ''
    end
  end
  level = level - cost * window
  local used = full - level
  -- %d takes less time, but is exact only below 2^53
  local set = call('HSET', key, 'used', format(used < 2 ^ 53 and '%d' or '%.0f', used), 'time', now_text .. since)
  if type(set) == 'number' then
    local to_fill = used / limit
    set = call('PEXPIRE', key, to_fill > window and format('%.0f', min(to_fill, LATEST_TIME) - window + ttl) or ttl)
  end
  if type(set) ~= 'number' then
    return set
  end
  local tokens = floor(level / window)
  return tokens, wait(tokens + 1, limit, window, level)
end

return find, wait, add
