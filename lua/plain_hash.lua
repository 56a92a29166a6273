-- The plain calls of the algorithms whose logs are HASHes: requests of one log each, with the same limit, or of the same two
-- limits each, by this server's clock. They are for lua/sliding_counter.lua and lua/token_bucket.lua what those of
-- lua/plain_log.lua are for algorithm=log.
--
-- KEYS   the logs; with two limits the two different logs of each request
-- ARGV   the costs of the requests, unless all are 1, then limit, window (ms), time to live (ms), and options as of
--        lua/plain_log.lua: of a counter perhaps, of a bucket always, since they end with its burst. With two limits, which
--        have no costs: these of the first, these of the second, and 'two'
-- Reply  as of lua/plain_log.lua; a reset that is not below 2 * window is told at length
--
-- The file of the algorithm is the function plain_of_hash(now, now_text, call). It returns three functions, in this order.
-- The latter two get what find() has told of the log behind its room. capacity: limit, or the size of the bucket
--   find(key, limit, window, capacity)  reads the log: what is left of the capacity, which may be less than 0, then up to
--                four values. With the fourth one add() removes something. False in an unusual case
--   wait(cost, limit, window, ...)  the time until there is room for a cost, which is not above the capacity (ms)
--   add(key, cost, limit, window, capacity, ttl, ...)  writes the request: what is left of the capacity, and the time until
--                that is more (ms); or an error

local KEYS, ARGV = KEYS, ARGV
local replies, left_over  -- the places of the requests that are left to the frame, see plain_rest.lua
local last, options = #ARGV, nil
local has_two, has_options = ARGV[last] == 'two' and (last == 7 or last == 9), last == #KEYS + 4
if has_two then
  last, has_options = last - 1, last == 9
end
if has_options or last == 4 and not tonumber(ARGV[4]) then
  options, last = ARGV[last], last - 1
end
if has_two or last == 3 or last == #KEYS + 3 then
  local call, max = redis.pcall, math.max
  local keys, costs, cost = KEYS, not has_two and last > 3 and ARGV, 1
  local limit, window, ttl = ARGV[last - 2] + 0, ARGV[last - 1] + 0, ARGV[last]
  local capacity = options and string.match(options, 'burst=(%d+)')
  local has_record = options and string.find(options, 'override', 1, true)
  local has_more = options and (not capacity or string.find(options, ' ', 1, true))  -- than a burst
  capacity = capacity and capacity + 0 or limit

  local time = redis.call('TIME')
  local us = time[2]
  local now_text = time[1] .. (#us == 6 and string.sub(us, 1, 3) or string.format('%03d', us / 1000))
  local now = now_text + 0
  local find, wait, add = plain_of_hash(now, now_text, call)

  local second_limit, second_window, second_ttl, second_capacity  -- of the second log of each request
  if has_two then
    second_limit, second_window, second_ttl, second_capacity = limit, window, ttl, capacity
    local before = last - (options and 4 or 3)
    limit, window, ttl = ARGV[before - 2] + 0, ARGV[before - 1] + 0, ARGV[before]
    capacity = options and string.match(ARGV[before + 1], 'burst=(%d+)') + 0 or limit
  end

  local unit, second_unit = 2 * window, has_two and 2 * second_window
  local is_brief = (capacity + 1) * unit < 2 ^ 53 and not (has_two and (second_capacity + 1) * second_unit >= 2 ^ 53)

  -- Of a denied request: what is left, the time until that is more, and the time until there is room for it.
  local function tell(room, cost, limit, window, capacity, ...)
    local reset = room < capacity and wait(max(room, 0) + 1, limit, window, ...) or window
    local retry = room >= cost and 0 or cost > capacity and -1 or max(wait(cost, limit, window, ...), 1)
    return max(room, 0), reset, retry
  end

  local requests = has_two and #keys / 2 or #keys
  replies = {}
  for i = 1, requests do
    local key, reply, room, other_room = has_two and keys[2 * i - 1] or keys[i], nil, nil, nil
    local one, two, three, four  -- what find() tells of the log
    local other_one, other_two, other_three, other_four  -- the same of the second one
    if costs then
      cost = costs[i] + 0
    end
    local is_behind = left_over and (has_two or costs and left_over.keys[key])
    if not is_behind  -- the requests of one log are decided in their order
        and limit >= 1 and cost >= 1 and cost <= LARGEST_COUNT
        and not (has_record and call('GET', key .. ':override')) then
      room, one, two, three, four = find(key, limit, window, capacity)
    end
    if room and has_two then
      if second_limit >= 1 then
        other_room, other_one, other_two, other_three, other_four =
          find(keys[2 * i], second_limit, second_window, second_capacity)
      end
      room = other_room and not other_four and room  -- the frame removes from both logs before it adds to one
    end

    if room and (room < cost or other_room and other_room < 1) then
      -- a denial writes nothing
      if not has_more and not four then
        reply = { 0, now, tell(room, cost, limit, window, capacity, one, two, three) }
        if has_two then
          reply[6], reply[7], reply[8] =
            tell(other_room, 1, second_limit, second_window, second_capacity, other_one, other_two, other_three)
        end
      end
    elseif room then
      local left, reset = add(key, cost, limit, window, capacity, ttl, one, two, three, four)
      local failed = type(left) == 'table' and left
      if has_two and not failed then
        local other_left, other_reset = add(keys[2 * i], 1, second_limit, second_window, second_capacity, second_ttl,
          other_one, other_two, other_three)
        local is_error = type(other_left) == 'table'
        reply = is_error and other_left
          or is_brief and reset < unit and other_reset < second_unit
            and { left * unit + reset, other_left * second_unit + other_reset }
          or { 1, now, left, reset, 0, other_left, other_reset, 0 }
      else
        reply = failed or is_brief and reset < unit and left * unit + reset or { 1, now, left, reset, 0 }
      end
    end

    if has_record and type(reply) == 'table' and not reply.err then
      reply[6], reply[7] = -1, 0  -- no record, as in override.lua
    end
    if not reply then
      left_over = left_over or { costs = costs, options = options, has_two = has_two, keys = {} }
      left_over[#left_over + 1], left_over.keys[key] = i, true
    end
    replies[i] = reply or false
  end
  replies[requests + 1] = is_brief and now or nil
  if not left_over then
    return replies
  end
end
