-- The plain call of algorithm=compact: one request for each of one or more logs, without options, with the same limit,
-- by this server's clock. It is for lua/compact_log.lua, which describes the form of a log, what lua/plain_log.lua is for
-- algorithm=log.
--
-- KEYS   the logs
-- ARGV   limit, window (ms), time to live (ms)
-- Reply  as in lua/decide.lua
--
-- Logs whose ring has to be read or written, about one in thirty, are left to the frame.

local KEYS, ARGV = KEYS, ARGV
local replies, left_over  -- the places of the logs that are left to the frame, see plain_rest.lua
if #ARGV == 3 then
  local call, byte, sub = redis.pcall, string.byte, string.sub
  local pack, unpack = struct.pack, struct.unpack
  local keys, limit, window, ttl = KEYS, ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
  local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37  -- as in compact_log.lua
  local WITH_RUNS, STATE_WITH_RUNS = 3, '>BI6I5I5I6I4I4I4BB'
  local FRONT = 64
  local LONGEST, HEAD_LAST = 7, '100'  -- bytes of a number; last byte of the front
  local MOST = 2 ^ 40 - 1

  local time = redis.call('TIME')
  local us = time[2]
  local now = (time[1] .. (#us == 6 and sub(us, 1, 3) or string.format('%03d', us / 1000))) + 0

  local horizon = now - window
  replies = {}
  for i = 1, #keys do
    local key, reply = keys[i], nil
    repeat  -- once; break: the reply, or without it an unusual case
      local front = call('GETRANGE', key, '0', HEAD_LAST)
      local form, pattern, has_runs = FORMAT, STATE, false
      local oldest, newest, used, touched, size, begin, filled, next_bytes, latest_bytes
      if limit < 1 then
        break
      elseif front ~= '' then
        if front.err or #front < STATE_BYTES then
          break
        end
        if byte(front) ~= FORMAT then
          if byte(front) ~= WITH_RUNS then
            break
          end
          form, pattern, has_runs = WITH_RUNS, STATE_WITH_RUNS, true
        end
        local _
        _, oldest, newest, used, touched, size, begin, filled, next_bytes, latest_bytes = unpack(pattern, front)
        local bytes, fewest = next_bytes + filled + latest_bytes, used - 1
        if has_runs then
          newest, fewest = oldest + newest, used > 1 and 1 or fewest
          if used >= MOST or now - oldest > MOST then
            break
          end
        end
        if newest > now or oldest > newest or bytes < fewest or bytes > (used - 1) * LONGEST or filled > size
            or STATE_BYTES + next_bytes + latest_bytes > #front then
          break  -- a step back of the clock, or no log
        end
      end
      if front == '' or newest <= horizon then
        local state = pack(STATE, FORMAT, now, now, 1, now, 0, 0, 0, 0, 0)
        reply = call('SET', key, state, 'PX', ttl).ok and { 1, now, limit - 1, window, 0 }
        break
      end

      local at, last, left = STATE_BYTES + 1, STATE_BYTES + next_bytes, 0
      local fine = next_bytes == 0 or byte(front, last) < 128
      while fine and oldest <= horizon do
        if at > last then
          fine = filled == 0 and latest_bytes > 0 and byte(front, last + latest_bytes) < 128
          last, latest_bytes = last + latest_bytes, 0
        end
        if fine then
          local high, bits = 0, byte(front, at)
          local is_run = has_runs and bits == 128
          while bits >= 128 do
            high, at = (high + bits - 128) * 128, at + 1
            bits = byte(front, at)
          end
          if is_run then
            at, left = at + 1, left + high + bits
          else
            oldest, at, left = oldest + high + bits, at + 1, left + 1
          end
        end
      end
      used, next_bytes = used - left, last + 1 - at
      local room, reset = limit - used, oldest + window - now
      if not fine or oldest > newest or used < 1 or room < 0 or room == 0 and left > 0 then
        break
      elseif room == 0 then
        reply = { 0, now, 0, reset, reset > 1 and reset or 1 }
        break
      end

      local ms = now - newest
      local number = ms < 128 and string.char(ms)
        or ms < 16384 and string.char(128 + (ms - ms % 128) / 128, ms % 128)
        or ms < 2097152 and string.char(128 + (ms - ms % 16384) / 16384, 128 + (ms % 16384 - ms % 128) / 128, ms % 128)
      if not number or next_bytes + latest_bytes + #number > FRONT then
        break
      end
      local due = size == 0 or touched > now or (now - touched) * 2 >= ttl - window
      local state = pack(pattern, form, oldest, has_runs and now - oldest or now, used + 1, due and now or touched, size,
        begin, filled, next_bytes, latest_bytes + #number) .. sub(front, at, last + latest_bytes) .. number
      if size == 0 then
        reply = call('SET', key, state, 'PX', ttl).ok and { 1, now, room - 1, reset, 0 }
      elseif type(call('SETRANGE', key, '0', state)) == 'number' then
        local set = due and call('PEXPIRE', key, ttl)
        reply = type(set) == 'table' and set or { 1, now, room - 1, reset, 0 }
      end
    until true

    replies[i] = reply or false
    if not reply then
      left_over = left_over or {}
      left_over[#left_over + 1] = i
    end
  end
  if not left_over then
    return replies
  end
end
