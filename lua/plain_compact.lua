-- The plain calls of algorithm=compact: requests of one log each, with the same limit, or of the same two limits each, by
-- this server's clock. They are for lua/compact_log.lua, which describes the form of a log, what those of
-- lua/plain_log.lua are for algorithm=log.
--
-- KEYS   the logs; with two limits the two different logs of each request
-- ARGV   the costs of the requests, unless all are 1, then limit, window (ms), time to live (ms), and perhaps options, as of
--        lua/plain_log.lua. With two limits, which have no costs: limit, window and time to live of the first, those of the
--        second, and 'two'
-- Reply  as of lua/plain_log.lua
--
-- Requests of logs whose ring has to be read or written, about one in thirty, are left to the frame. A request with a cost
-- takes several times the bytes, so with costs the usual cases of the ring are decided here: the next bytes to leave it are
-- in one piece, and the bytes that are added to it have room there, in one piece.
--
-- A log has five parts: what its head says, what leaves the window, a denial, an admission, what is written. They are no
-- functions, since a script makes its functions anew at each call.

local KEYS, ARGV = KEYS, ARGV
local replies, left_over  -- the places of the requests that are left to the frame, see plain_rest.lua
local arguments, options, has_two = #ARGV, nil, ARGV[7] == 'two' and #ARGV == 7
if has_two or arguments == #KEYS + 4 or arguments == 4 and not tonumber(ARGV[4]) then
  arguments, options = arguments - 1, ARGV[arguments]
end
if has_two then
  options = nil
end
if has_two or arguments == 3 or arguments == #KEYS + 3 then
  local call, byte, sub = redis.pcall, string.byte, string.sub
  local pack, unpack = struct.pack, struct.unpack
  local keys, costs, cost = KEYS, not has_two and arguments > 3 and ARGV, 1
  local limit, window, ttl = ARGV[arguments - 2] + 0, ARGV[arguments - 1] + 0, ARGV[arguments]
  local first_limit, first_window, first_ttl, second_limit, second_window, second_ttl
  if has_two then
    first_limit, first_window, first_ttl = ARGV[1] + 0, ARGV[2] + 0, ARGV[3]
    second_limit, second_window, second_ttl = limit, window, ttl
  end
  local FORMAT, STATE, STATE_BYTES = 1, '>BI6I6I4I6I4I4I4BB', 37  -- as in compact_log.lua
  local WITH_RUNS, STATE_WITH_RUNS = 3, '>BI6I5I5I6I4I4I4BB'
  local SHORTEST_RUN = 3
  local FRONT, HEAD, SOON = 64, 101, 8  -- SOON: about the number of bytes of a request with a cost
  local has_record = options and string.find(options, 'override', 1, true)
  local ahead = options and string.match(options, 'ahead=(%d+)') or 0
  local LONGEST, HEAD_LAST = 7, costs and '132' or '100'  -- bytes of a number; last byte of the front, or of a new ring's

  local time = redis.call('TIME')
  local us = time[2]
  local now = (time[1] .. (#us == 6 and sub(us, 1, 3) or string.format('%03d', us / 1000))) + 0

  local unit, second_unit = 2 * (first_window or window), has_two and 2 * second_window
  local is_brief = (first_limit or limit) * unit < 2 ^ 53 and not (has_two and second_limit * second_unit >= 2 ^ 53)
  local horizon = now - window
  local first  -- of a request with two limits: false if the first log leaves it to the frame; then what that log has:
  local first_state, first_size, first_due, first_room, first_reset, first_retry, first_changes
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
    if costs then
      cost = costs[i] + 0
      if cost > LARGEST_COUNT or left_over and left_over.keys[key] then
        cost = 0  -- left to the frame, which decides the requests of one log in their order
      end
    end
    first = is_second and first
    repeat  -- runs once; a break ends it: with a reply, or without one in an unusual case
      if has_record and call('GET', key .. ':override') then
        break
      elseif has_two and (left_over or is_second and not first) then
        break  -- requests are decided in their order
      end
      -- 1. what the head says
      local front = call('GETRANGE', key, '0', HEAD_LAST)
      local form, pattern, has_runs = FORMAT, STATE, false
      local oldest, newest, used, touched, size, begin, filled, next_bytes, latest_bytes
      if limit < 1 or cost < 1 then
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
          if used >= MOST_OF_LOG or now - oldest > MOST_OF_LOG then
            break
          end
        end
        if newest > now or oldest > newest or bytes < fewest or bytes > (used - 1) * LONGEST or filled > size
            or STATE_BYTES + next_bytes + latest_bytes > #front or costs and next_bytes + latest_bytes > FRONT then
          break  -- the clock has stepped back, or the contents are no log
        end
      end
      local is_there = front ~= ''
      if not is_there or newest <= horizon then
        front, form, pattern, has_runs = '', FORMAT, STATE, false
        oldest, newest, used, touched, size, begin, filled, next_bytes, latest_bytes = now, now, 0, now, 0, 0, 0, 0, 0
      end

      -- 2. what leaves the window: `left` entries, whose numbers end before `at`
      local at, last, left = STATE_BYTES + 1, STATE_BYTES + next_bytes, 0
      local ring
      if costs and filled > 0 and next_bytes < SOON and (oldest <= horizon or limit - used < cost) then
        local length, from = filled < FRONT / 2 and filled or FRONT / 2, HEAD + begin
        if begin + length <= size then  -- else it is in two pieces
          ring = from + length <= #front and sub(front, from + 1, from + length)
            or call('GETRANGE', key, from, from + length - 1)
        end
        local whole = ring and #ring == length and length or 0
        while whole > 0 and byte(ring, whole) >= 128 do
          whole = whole - 1
        end
        ring = whole > 0 and sub(ring, 1, whole)
      end
      local fine = next_bytes == 0 or byte(front, last) < 128
      while fine and oldest <= horizon do
        if at > last and ring then
          front, at, last = ring .. sub(front, last + 1, last + latest_bytes), 1, #ring
          begin, filled, ring = (begin + last) % size, filled - last, nil
        elseif at > last then
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
      if not fine or oldest > newest or used < 1 and front ~= '' then
        break
      end

      local number = ''
      if room < cost and options then
        break
      elseif room < cost then
        -- 3. a denial: until when the log has no room
        local wanted, older = oldest, cost - room - 1  -- there is room when the entry behind the `older` oldest ones leaves
        if cost > limit then
          wanted = -1
        elseif older > 0 then
          -- the search begins at the nearer end, as in compact_log.lua; an entry that is not near is left to the frame
          if 2 * older < used then
            local bytes, place, stop = front, at, last
            while older > 0 do
              if place > stop then
                if ring then
                  bytes, place, stop, ring = ring, 1, #ring, nil
                elseif filled == 0 and stop == last and byte(front, last + latest_bytes) < 128 then
                  stop = last + latest_bytes
                end
                if place > stop then
                  break
                end
              end
              local high, bits = 0, byte(bytes, place)
              local is_run = has_runs and bits == 128
              while bits >= 128 do
                high, place = (high + bits - 128) * 128, place + 1
                bits = byte(bytes, place)
              end
              place = place + 1
              if is_run then
                older = older - high - bits
              else
                wanted, older = wanted + high + bits, older - 1
              end
            end
            wanted = older <= 0 and wanted <= newest and wanted
          else
            local newer, place, stop = used - 1 - older, last + latest_bytes, filled > 0 and last or at - 1
            wanted = newest
            fine = place > stop and byte(front, place) < 128
            while fine and newer > 0 do
              local ms, scale = byte(front, place), 1
              place = place - 1
              while place > stop and byte(front, place) >= 128 do
                scale = scale * 128
                ms, place = ms + (byte(front, place) - 128) * scale, place - 1
              end
              if has_runs and byte(front, place + 1) == 128 then
                newer = newer - ms
              else
                wanted, newer = wanted - ms, newer - 1
              end
              fine = newer <= 0 or place > stop
            end
            wanted = fine and wanted >= oldest and wanted
          end
        end
        if not wanted then
          break
        end
        local retry = wanted + window - now
        reply = { 0, now, room > 0 and room or 0, reset, wanted < 0 and -1 or retry > 1 and retry or 1 }
        if has_two and not is_second then
          first, first_room, first_reset, first_retry, first_changes = left == 0, reply[3], reset, reply[5], false
          reply = nil
        elseif is_second then
          reply = left == 0 and not first_changes
            and { 0, now, first_room, first_reset, first_retry, reply[3], reset, reply[5] } or nil
        end
        if left == 0 or has_two then
          break
        end
      elseif is_second and first_retry > 0 then
        local changes = left > 0 or front == '' and is_there
        reply = not changes and { 0, now, first_room, first_reset, first_retry, room, reset, 0 } or nil
        break
      else
        -- 4. an admission: `number` is what the log gets
        local ms = now - newest
        number = front == '' and '' or ms < 128 and string.char(ms)
          or ms < 16384 and string.char(128 + (ms - ms % 128) / 128, ms % 128)
          or ms < 2097152 and string.char(128 + (ms - ms % 16384) / 16384, 128 + (ms % 16384 - ms % 128) / 128, ms % 128)
        newest, used = now, used + cost
        if not number or cost > SHORTEST_RUN and (used > MOST_OF_LOG or now - oldest > MOST_OF_LOG) then
          break
        elseif cost > SHORTEST_RUN then
          form, pattern, has_runs = WITH_RUNS, STATE_WITH_RUNS, true
          local char, more = string.char, cost - 1
          local digits = char(more % 128)
          while more >= 128 do
            more = (more - more % 128) / 128
            digits = char(128 + more % 128) .. digits
          end
          number = number .. '\128' .. digits
        elseif cost > 1 then
          number = number .. string.rep('\0', cost - 1)
        end
      end

      -- 5. what is written: the front, and before it what the front has no room for
      if next_bytes + latest_bytes + #number > FRONT then
        local bytes, to = sub(front, last + 1, last + latest_bytes) .. number, (begin + filled) % size
        if not costs or size - filled < #bytes or (filled + #bytes) * 4 < size or to + #bytes > size
            or call('GETRANGE', key, HEAD + size - 1, HEAD + size - 1) == ''
            or type(call('SETRANGE', key, HEAD + to, bytes)) ~= 'number' then
          reply = nil
          break
        end
        filled, latest_bytes, number = filled + #bytes, 0, ''
      end

      local due = touched > now or (now - touched) * 2 >= ttl - window - ahead
      if size == 0 then
        due = room >= cost or touched > now or touched == 0
      end
      local state = pack(pattern, form, oldest, has_runs and newest - oldest or newest, used, due and now or touched, size,
        begin, filled, next_bytes, latest_bytes + #number) .. sub(front, at, last + latest_bytes) .. number
      if has_two and not is_second then
        -- with what is said of it if the other one denies; then nothing may be written here
        first, first_state, first_size, first_due = true, state, size, due
        first_room, first_reset, first_retry, first_changes = room, reset, 0, left > 0 or front == '' and is_there
        break
      end
      local rest_of_second, reset_of_second = room - cost, reset
      local failed  -- an error, or true: nothing was added
      for written_before = 0, is_second and 1 or 0 do  -- this log, then the first one of the request
        if written_before == 1 then
          key, ttl = keys[i - 1], first_ttl
          state, size, due, room, reset = first_state, first_size, first_due, first_room, first_reset
        end
        local set
        if size > 0 then
          set = call('SETRANGE', key, '0', state)
          local lives = due and type(set) == 'number' and call('PEXPIRE', key, ttl)
          failed = type(lives) == 'table' and lives
        elseif due then
          set = call('SET', key, state, 'PX', ttl)
        else
          set = call('SET', key, state, 'KEEPTTL')
        end
        if type(set) == 'table' and set.err then
          failed = written_before == 1 and set or true
        end
        if failed then
          break
        end
      end
      if failed then
        reply = failed ~= true and failed or nil
      elseif is_second then
        reply = is_brief and { (room - cost) * unit + reset, rest_of_second * second_unit + reset_of_second }
          or { 1, now, room - cost, reset, 0, rest_of_second, reset_of_second, 0 }
      elseif room >= cost then
        reply = is_brief and (room - cost) * unit + reset or { 1, now, room - cost, reset, 0 }
      end
    until true

    if has_record and type(reply) == 'table' and not reply.err then
      reply[6], reply[7] = -1, 0  -- no record, as in override.lua
    end
    if reply then
      replies[request] = reply
    elseif is_second or not has_two then
      replies[request] = false
      left_over = left_over or { costs = costs, options = options, has_two = has_two, keys = {} }
      left_over[#left_over + 1], left_over.keys[key] = request, true
    end
  end
  replies[(has_two and #keys / 2 or #keys) + 1] = is_brief and now or nil
  if not left_over then
    return replies
  end
end
