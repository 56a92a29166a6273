-- The requests under way (algorithm=inflight): a ZSET as that of lua/sliding_log.lua, which is exact_log in this script.
-- The window is the lease, and the score of an entry is the time of its latest renewal (lua/renewal.lua): an entry counts
-- while now - lease < score. It has no ids, no blocks, no reservations and no permits. lua/decide.lua has the contract
-- of what both return.
--
-- A request gives its entry back when it ends, by ZREM of its members. Reset and retry of a reply are the time until the
-- oldest entry leaves if it is not renewed. They say little, so nginx tells a client to retry in a second.

local read, add, uncommon, most_entries, latest, set_now = exact_log(...)
local it = uncommon()

-- An entry is found by its name alone, since a renewal changes its time.
function it.take_back(log, name)
  local leaving = { 'ZREM', log.key }
  for i = 1, it.entries(log, name) do
    leaving[i + 2] = i == 1 and name or name .. '~' .. i
  end
  return #leaving > 2 and redis.call(unpack(leaving)) > 0, false
end

return read, add, uncommon, most_entries, latest, set_now
