-- What lua/plain_hash.lua wants of algorithm=counter. It reads and writes a log as lua/sliding_counter.lua does, which tells
-- its form and the rule of decisions. Unusual cases: a block, reservations, a clock that has stepped back, many fields,
-- contents that are not a counter.

local now, now_text, call = ...

local floor, max, format = math.floor, math.max, string.format

local MOST_FIELDS = 100

local function used_of(here, before, window)
  return before > 0 and here + math.ceil(before * (window - now % window) / window) or here
end

-- Behind the room: the counts of this window and of the previous one, the field of requests admitted now (nil: none yet),
-- and the fields to remove (nil: none); they have `stays` if another field stays.
local function find(key, limit, window)
  local fields = call('HGETALL', key)
  local start = now - now % window
  local here, before, since, field, stale = 0, 0, 0, nil, nil
  if fields.err or #fields > MOST_FIELDS then
    return false
  end
  for i = 1, #fields, 2 do
    local begin, count = tonumber(fields[i]), tonumber(fields[i + 1])
    if not (begin and count and count >= 0 and count % 1 == 0 and begin >= 0 and begin < start + window) then
      return false
    elseif begin >= start then
      here = here + count
      if begin >= since and begin <= now then
        since, field = begin, fields[i]
      end
    elseif begin >= start - window then
      before = before + count
    else
      stale = stale or {}
      stale[#stale + 1] = fields[i]
    end
  end
  if stale and 2 * #stale < #fields then
    stale.stays = true
  end
  return here + before <= 2 ^ 53 and limit - used_of(here, before, window), here, before, field, stale
end

local function wait(cost, limit, window, here, before)
  local start, most = now - now % window, limit - cost
  if here <= most then
    local part = before > 0 and floor((most - here) * window / before) or window
    if part > 0 then
      return max(start + max(window - part, 0) - now, 0)
    end
  end
  local part = here > 0 and floor(most * window / here) or window
  return start + window + max(window - part, 0) - now
end

local function add(key, cost, limit, window, _, ttl, here, before, field, stale)
  local set = 0
  if stale and stale.stays then
    set = call('HDEL', key, unpack(stale))
  end
  if type(set) == 'number' then
    set = call('HINCRBY', key, field or now_text, cost == 1 and '1' or format('%d', cost))
  end
  if set == cost then
    set = call('PEXPIRE', key, format('%d', ttl + window))
  end
  if stale and not stale.stays and type(set) == 'number' then
    set = call('HDEL', key, unpack(stale))
  end
  if type(set) ~= 'number' then
    return set
  end
  here = here + cost
  local room = limit - used_of(here, before, window)
  return room, wait(max(room, 0) + 1, limit, window, here, before)
end

return find, wait, add
