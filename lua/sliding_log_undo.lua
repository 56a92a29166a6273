-- Takes a request back out of the exact logs it was admitted to, when a limit that was asked later, of another
-- store, denied it. Exactly its own entries leave; running it twice changes nothing more.
--
-- KEYS   the logs, as lua/sliding_log.lua had them
-- ARGV   [1] the request's unique name, then one per key: its id ('' = none)
-- Reply  how many entries left

local removed = 0
for i, key in ipairs(KEYS) do
  local unique, id = ARGV[1], ARGV[i + 1]
  local member = id == '' and unique or id
  -- where the id was taken, the entry carries both names: the plain one is somebody else's
  if redis.call('ZREM', key, member .. '~' .. unique) == 1 or redis.call('ZREM', key, member) == 1 then
    removed = removed + 1
  end
end
return removed
