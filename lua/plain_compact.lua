-- The plain call of algorithm=compact: one request for one log, without options, by this server's clock. It is for
-- lua/compact_log.lua, which describes the form of a log, what lua/plain_log.lua is for algorithm=log.
--
-- KEYS   the log
-- ARGV   limit, window (ms), time to live (ms)
-- Reply  as in lua/decide.lua
--
-- Calls that read or write the ring, about one in thirty, are left to the frame.

local ARGV = ARGV
if #ARGV == 3 then
  local call, byte, sub = redis.pcall, string.byte, string.sub
  local key, limit, window, ttl = KEYS[1], ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
  local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37  -- as in compact_log.lua
  local FRONT = 64
  local LONGEST, HEAD_LAST = 7, '100'  -- bytes of a number; last byte of the front

  local time = redis.call('TIME')
  local us = time[2]
  local now = (time[1] .. (#us == 6 and sub(us, 1, 3) or string.format('%03d', us / 1000))) + 0

  local front = call('GETRANGE', key, '0', HEAD_LAST)
  local oldest, newest, used, touched, size, begin, filled, next_bytes, latest_bytes
  local fine = front == ''  -- no log, or one that is complete and not ahead of now
  if not fine and #front >= STATE_BYTES and byte(front) == FORMAT then
    local _
    _, oldest, newest, used, touched, size, begin, filled, next_bytes, latest_bytes = struct.unpack(STATE, front)
    local bytes = next_bytes + filled + latest_bytes
    fine = newest <= now and oldest <= newest and bytes >= used - 1 and bytes <= (used - 1) * LONGEST and filled <= size
      and STATE_BYTES + next_bytes + latest_bytes <= #front
  end

  if fine and limit >= 1 and (front == '' or newest <= now - window) then
    local state = struct.pack(STATE, FORMAT, now, now, 1, now, 0, 0, 0, 0, 0)
    if call('SET', key, state, 'PX', ttl).ok then
      return { { 1, now, limit - 1, window, 0 } }
    end
  elseif fine and limit >= 1 then
    local at, last, left = STATE_BYTES + 1, STATE_BYTES + next_bytes, 0
    fine = next_bytes == 0 or byte(front, last) < 128
    while fine and oldest <= now - window do
      if at > last then
        fine = filled == 0 and latest_bytes > 0 and byte(front, last + latest_bytes) < 128
        last, latest_bytes = last + latest_bytes, 0
      end
      if fine then
        local high, bits = 0, byte(front, at)
        while bits >= 128 do
          high, at = (high + bits - 128) * 128, at + 1
          bits = byte(front, at)
        end
        oldest, at, left = oldest + high + bits, at + 1, left + 1
      end
    end
    used, next_bytes = used - left, last + 1 - at
    local room, reset = limit - used, oldest + window - now
    fine = fine and oldest <= newest and used >= 1
    if fine and room == 0 and left == 0 then
      return { { 0, now, 0, reset, reset > 1 and reset or 1 } }
    elseif fine and room > 0 then
      local ms = now - newest
      local number = ms < 128 and string.char(ms)
        or ms < 16384 and string.char(128 + (ms - ms % 128) / 128, ms % 128)
        or ms < 2097152 and string.char(128 + (ms - ms % 16384) / 16384, 128 + (ms % 16384 - ms % 128) / 128, ms % 128)
      if number and next_bytes + latest_bytes + #number <= FRONT then
        local due = size == 0 or touched > now or (now - touched) * 2 >= ttl - window
        local state = struct.pack(STATE, FORMAT, oldest, now, used + 1, due and now or touched, size, begin, filled,
          next_bytes, latest_bytes + #number) .. sub(front, at, last + latest_bytes) .. number
        if size == 0 then
          fine = call('SET', key, state, 'PX', ttl).ok
        else
          fine = type(call('SETRANGE', key, '0', state)) == 'number'
          local set = fine and due and call('PEXPIRE', key, ttl)
          if type(set) == 'table' then
            return { set }
          end
        end
        if fine then
          return { { 1, now, room - 1, reset, 0 } }
        end
      end
    end
  end
  ARGV = { '', '1', '1', '', ARGV[1], ARGV[2], '0', ttl, '' }
end
