-- The plain call of algorithm=log: one request for each of one or more logs, with the same limit, by this server's clock.
-- Most calls are plain, so they have a shorter path at the beginning of the script. It decides, writes and replies as
-- lua/sliding_log.lua and lua/decide.lua do. Logs in unusual cases are left to them before anything was added. An error
-- after that is the reply.
--
-- KEYS   the logs
-- ARGV   the names of their requests, then limit, window (ms), time to live (ms), and perhaps options: of block, delay,
--        ahead, escalates and override. These are of use only to a request that has no room, or whose log has a record: it
--        is left to the frame
-- Reply  as in lua/decide.lua
--
-- If entries leave, the request is added before they are removed: a key that is emptied may not be touched again. A
-- full log is pruned first, if something stays. At most AT_ONCE entries leave in a call: logs with more to remove are
-- left to sliding_log.lua.

local KEYS, ARGV = KEYS, ARGV
local replies, left_over  -- the places of the logs that are left to the frame, see plain_rest.lua
if #ARGV == #KEYS + 3 or #ARGV == #KEYS + 4 then
  local call, format = redis.pcall, string.format
  local keys, names = KEYS, ARGV
  local limit, window, ttl, options = ARGV[#KEYS + 1] + 0, ARGV[#KEYS + 2] + 0, ARGV[#KEYS + 3], ARGV[#KEYS + 4]
  local has_record = options and string.find(options, 'override', 1, true)
  local AT_ONCE, AT_ONCE_TEXT = 1000, '1000'  -- as in sliding_log.lua

  local time = redis.call('TIME')
  local us = time[2]
  local now_text = time[1] .. (#us == 6 and string.sub(us, 1, 3) or format('%03d', us / 1000))
  local now = now_text + 0

  local horizon = now - window
  replies = {}
  for i = 1, #keys do
    local key, reply = keys[i], nil
    repeat  -- runs once; a break ends it: with a reply, or without one in an unusual case
      if has_record and call('GET', key .. ':override') then
        break
      end
      local head = call('ZRANGE', key, '0', '0', 'WITHSCORES')
      local oldest = head[2]
      if not oldest then
        if not head.err and limit >= 1 and call('ZADD', key, 'NX', now_text, names[i]) == 1 then
          local set = call('PEXPIRE', key, ttl)
          reply = type(set) == 'number' and { 1, now, limit - 1, window, 0 } or set
        end
        break
      end

      oldest = oldest + 0
      local count = call('ZCARD', key)
      local room = type(count) == 'number' and limit >= 1 and limit - count or -1
      if room < 0 or oldest < 0 or oldest > now then
        break  -- a lower limit than before, a block, a step back of the clock, or an error
      end
      if oldest > horizon then
        if room == 0 then
          if not options and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 <= now then
            local reset = oldest + window - now
            reply = { 0, now, 0, reset, reset > 1 and reset or 1 }
          end
          break
        end
      elseif count > AT_ONCE and call('ZRANGE', key, AT_ONCE_TEXT, AT_ONCE_TEXT, 'WITHSCORES')[2] + 0 <= horizon then
        break
      end

      local left = 0
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
      -- with options it comes last, as in the frame: Redis refuses a script for lack of memory until it has written
      local moved = not options and call('PEXPIRE', key, ttl, 'GT') or 0
      if not (moved == 1 or moved == 0 and call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] + 0 <= now)
          or call('ZADD', key, 'NX', now_text, names[i]) ~= 1 then
        break
      end
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
      reply = { 1, now, room - 1, oldest + window - now, 0 }
    until true

    if has_record and reply and not reply.err then
      reply[6], reply[7] = -1, 0  -- no record, as in override.lua
    end
    replies[i] = reply or false
    if not reply then
      left_over = left_over or { options = options }
      left_over[#left_over + 1] = i
    end
  end
  if not left_over then
    return replies
  end
end
