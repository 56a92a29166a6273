-- The log of one request in N (algorithm=sampled), N being the option sample: a ZSET, each of whose entries counts for N
-- requests. All but what follows is exact_log, the function that lua/sliding_log.lua is in this script. lua/decide.lua has
-- the contract of what both return.
--
-- A request that costs c has floor(c / N) entries, and one more with a probability of (c mod N) / N. Nobody outside can
-- tell for which requests: the SHA-1 of its unique name, which no client sees, says so, and says it again when the
-- request is taken back.

local read, add, uncommon, most_entries, latest, set_now = exact_log(...)
local it = uncommon()

function it.entries(log, name)
  local cost, sample = log.options.cost, log.options.sample
  local drawn = tonumber(string.sub(redis.sha1hex(name), 1, 12), 16) % sample
  return math.floor(cost / sample) + (drawn < cost % sample and 1 or 0)
end

function it.fits(log, names, requests)
  local room = log.capacity - log.used
  for j = 1, requests do
    if room < log.options.cost then
      return j - 1
    end
    room = room - it.entries(log, ARGV[names + j]) * log.options.sample
  end
  return requests
end

return read, add, uncommon, most_entries, latest, set_now
