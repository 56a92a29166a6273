-- The renewal of entries of algorithm=inflight. It stands before everything else of that script.
--
-- KEYS   logs
-- ARGV   'renew', the time in ms, or '' for the clock of this server; then for each log: its time to live (ms), the
--        number of members, at least 1 and at most 1,000, and the members
-- Reply  for each log the number of members that were missing, or an error, which concerns this log only
--
-- Each member gets the present time. One that is missing is entered again, also beyond the limit: its request is under
-- way, and a fail-over or a flush has forgotten it, or it was admitted without this server. A member with a time ahead
-- of now, since the clock has stepped back, gets the present time, too. Nothing is removed.
--
-- Members are renewed even if there is no memory: Redis does not refuse a script once it has written.
--
-- Redis calls: TIME unless it is given, ZREMRANGEBYRANK of nothing at the first log, and for each log ZADD and PEXPIRE.

if ARGV[1] == 'renew' then
  local call, format = redis.pcall, string.format
  local now = ARGV[2]
  if now == '' then
    local time = call('TIME')
    now = time[1] .. format('%03d', time[2] / 1000)
  end
  call('ZREMRANGEBYRANK', KEYS[1], '1', '0')
  local renewed, at = {}, 3
  for i = 1, #KEYS do
    local key, members = KEYS[i], ARGV[at + 1] + 0
    local entries = { 'ZADD', key }
    for j = 1, members do
      entries[2 * j + 1], entries[2 * j + 2] = now, ARGV[at + 1 + j]
    end
    local missing = call(unpack(entries))
    if type(missing) == 'number' then
      call('PEXPIRE', key, ARGV[at])
    end
    renewed[i], at = missing, at + 2 + members
  end
  return renewed
end
