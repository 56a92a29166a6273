-- The plain calls of algorithm=log: requests of one log each, with the same limit, or of the same two limits each, by this
-- server's clock. Most calls are plain, so they have a shorter path at the beginning of the script. It decides, writes and
-- replies as lua/sliding_log.lua and lua/decide.lua do. Requests in unusual cases are left to them before anything was
-- added. An error after that is the reply.
--
-- KEYS   the logs; with two limits the two different logs of each request
-- ARGV   the names of the requests, then limit, window (ms), time to live (ms), and perhaps options: of block, delay,
--        ahead, escalates and override. These are of use only to a request that has no room, or whose log has a record: it
--        is left to the frame. With two limits: the names, limit, window and time to live of the first, those of the
--        second, and 'two'
-- Reply  as in lua/decide.lua, with the time behind all batches if a request may be told briefly: one that is admitted by
--        remaining * 2 * window + reset, or with two limits by an array of these two, if such numbers are exact
--
-- If entries leave, the request is added before they are removed: a key that is emptied may not be touched again. A
-- full log is pruned first, if something stays. At most AT_ONCE entries leave in a call: logs with more to remove are
-- left to sliding_log.lua.

local KEYS, ARGV = KEYS, ARGV
local replies, left_over  -- the places of the requests that are left to the frame, see plain_rest.lua
local has_two = ARGV[#ARGV] == 'two' and #ARGV == #KEYS / 2 + 7  -- the last word of another call may be a client's id
if has_two or #ARGV == #KEYS + 3 or #ARGV == #KEYS + 4 then
  local call, format = redis.pcall, string.format
  local keys, names, numbers = KEYS, ARGV, has_two and #KEYS / 2 or #KEYS  -- numbers: behind which they are
  local limit, window, ttl, options = ARGV[numbers + 1] + 0, ARGV[numbers + 2] + 0, ARGV[numbers + 3], nil
  local first_limit, first_window, first_ttl, second_limit, second_window, second_ttl = limit, window, ttl, nil, nil, nil
  if has_two then
    second_limit, second_window, second_ttl = ARGV[numbers + 4] + 0, ARGV[numbers + 5] + 0, ARGV[numbers + 6]
  else
    options = ARGV[numbers + 4]
  end
  local has_record = options and string.find(options, 'override', 1, true)
  local AT_ONCE, AT_ONCE_TEXT = 1000, '1000'  -- as in sliding_log.lua

  local time = redis.call('TIME')
  local us = time[2]
  local now_text = time[1] .. (#us == 6 and string.sub(us, 1, 3) or format('%03d', us / 1000))
  local now = now_text + 0

  -- Moves the time to live on, as the frame does when it has read a log: 1 or 0, as PEXPIRE says; false in an unusual case.
  local move_on = has_two and function(key, ttl)
    local moved = call('PEXPIRE', key, ttl, 'GT')
    return (moved == 1 or moved == 0 and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 <= now) and moved
  end

  local unit, second_unit = 2 * window, has_two and 2 * second_window
  local is_brief = limit * unit < 2 ^ 53 and not (has_two and second_limit * second_unit >= 2 ^ 53)
  local horizon = now - window
  local first  -- of a request with two limits: false if the first log leaves it to the frame; then what that log has:
  local first_oldest, first_count, first_room, first_left, first_moved, first_denies
  replies = {}
  for i = 1, #keys do
    local key, reply = keys[i], nil
    local request, is_second = i, false
    if has_two then
      is_second = i % 2 == 0
      request = (i + i % 2) / 2
      if is_second then
        limit, window, ttl = second_limit, second_window, second_ttl
      else
        limit, window, ttl = first_limit, first_window, first_ttl
      end
      horizon = now - window
    end
    local oldest, count, room, left, moved
    local fine, denies = false, false
    repeat  -- runs once; a break ends it: the log has room (fine), or denies, or this is an unusual case
      if has_record and call('GET', key .. ':override') then
        break
      elseif has_two and (left_over or is_second and not first) then
        break  -- requests are decided in their order
      end
      local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
      oldest = head[2]
      if not oldest then
        room, fine = limit, not head.err and limit >= 1
        break
      end

      oldest = oldest + 0
      count = call('ZCARD', key)
      room = type(count) == 'number' and limit >= 1 and limit - count or -1
      if room < 0 or oldest < 0 or oldest > now then
        break  -- a lower limit than before, a block, a step back of the clock, or an error
      end
      if oldest > horizon then
        if room == 0 then
          denies = not options and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 <= now
          break
        end
      elseif count > AT_ONCE and call('ZRANGE', key, AT_ONCE_TEXT, AT_ONCE_TEXT, 'WITHSCORES')[2] + 0 <= horizon then
        break
      end

      left = 0
      if room == 0 then
        -- so the log never has more than `limit` entries, and a short one keeps its compact encoding
        local newest = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0
        if newest <= horizon or newest > now then
          break
        end
        left = call('ZREMRANGEBYSCORE', key, '0', format('%d', horizon))
        if type(left) ~= 'number' then
          break
        end
      end
      if has_two then
        fine = oldest > horizon or call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 <= now
        break  -- nothing was added yet
      end
      -- with options it comes last, as in the frame: Redis refuses a script for lack of memory until it has written
      moved = not options and call('PEXPIRE', key, ttl, 'GT') or 0
      fine = moved == 1 or moved == 0 and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 <= now
    until true

    if is_second and (fine or denies) then
      if not fine or first_denies then  -- a denial: it is left to the frame if entries leave the log that has room
        fine = fine and not (oldest and oldest <= horizon)
        denies = denies and not (first_oldest and first_oldest <= now - first_window)
      end
      if (fine or denies) and first_oldest and not first_denies then
        first_moved = move_on(keys[i - 1], first_ttl)
        fine, denies = fine and first_moved, denies and first_moved
      end
      if fine and oldest then
        moved = move_on(key, ttl)
        fine = moved
      end
    end

    if has_two and not is_second then
      first = fine or denies
      first_oldest, first_count, first_room, first_left, first_moved, first_denies = oldest, count, room, left, moved, denies
    elseif denies or fine and first and first_denies then
      local reset = oldest and oldest + window - now or window
      reply = { 0, now, room, reset, not denies and 0 or reset > 1 and reset or 1 }
      if is_second then
        local reset_of_first = first_oldest and first_oldest + first_window - now or first_window
        local retry_of_first = not first_denies and 0 or reset_of_first > 1 and reset_of_first or 1
        reply = { 0, now, first_room, reset_of_first, retry_of_first, room, reset, reply[5] }
      end
    elseif fine then
      local rest_of_second, reset_of_second
      for added_before = 0, is_second and 1 or 0 do  -- adds the request to this log, then to its first one
        if added_before == 1 then
          key, window, ttl = keys[i - 1], first_window, first_ttl
          horizon = now - window
          oldest, count, room, left, moved = first_oldest, first_count, first_room, first_left, first_moved
        end
        local added = call('ZADD', key, 'NX', now_text, names[request])
        if added == 0 and added_before == 1 then  -- it has the name already: both stay, as in sliding_log.lua
          added = call('ZADD', key, 'NX', now_text, names[request] .. '~' .. names[request])
        elseif added ~= 1 and added_before == 0 then
          break
        end
        if type(added) ~= 'number' then
          reply = added
          break
        end

        local reset = window
        if not oldest then
          local set = call('PEXPIRE', key, ttl)
          if type(set) ~= 'number' then
            reply = set
            break
          end
        else
          moved = options and call('PEXPIRE', key, ttl, 'GT') or moved
          if oldest <= horizon then
            if left == 0 then
              left = call('ZREMRANGEBYSCORE', key, '0', format('%d', horizon))
              if type(left) ~= 'number' then
                reply = left
                break
              elseif left == count and moved == 0 then
                call('PEXPIRE', key, ttl)
              end
            end
            room = room + left
            oldest = call('ZRANGE', key, '0', '0', 'WITHSCORES')[2] + 0
            local ahead = window >= 100000 and 1000 or window > 100 and window / 100 or 1  -- of permits, as in decide.lua
            if options then
              ahead = math.max(ahead, string.match(options, 'ahead=(%d+)') or 0)
            end
            if oldest == now and left < count
                and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 > now + ahead then
              call('PEXPIRE', key, format('%d', 2 * ttl))  -- so the next call detects the step back
            end
          end
          reset = oldest + window - now
        end
        if not is_second then
          reply = is_brief and (room - 1) * unit + reset or { 1, now, room - 1, reset, 0 }
        elseif added_before == 0 then
          rest_of_second, reset_of_second = room - 1, reset
        else
          reply = is_brief and { (room - 1) * unit + reset, rest_of_second * second_unit + reset_of_second }
            or { 1, now, room - 1, reset, 0, rest_of_second, reset_of_second, 0 }
        end
      end
    end

    if has_record and type(reply) == 'table' and not reply.err then
      reply[6], reply[7] = -1, 0  -- no record, as in override.lua
    end
    if reply then
      replies[request] = reply
    elseif is_second or not has_two then
      replies[request] = false
      left_over = left_over or { options = options, has_two = has_two, moved = {} }
      left_over[#left_over + 1] = request
      if moved == 1 then
        left_over.moved[key] = true
      end
      if first and first_moved == 1 then
        left_over.moved[keys[i - 1]] = true
      end
    end
  end
  replies[numbers + 1] = is_brief and now or nil
  if not left_over then
    return replies
  end
end
