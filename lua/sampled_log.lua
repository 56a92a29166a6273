-- The log of one request in N (algorithm=sampled), with N from the option sample: a ZSET in which each entry counts for
-- N requests. Everything else is done by exact_log, the function that lua/sliding_log.lua is in this script.
-- lua/decide.lua has the contract of what both return.
--
-- A request of cost c has floor(c / N) entries, and one more with a probability of (c mod N) / N. The SHA-1 of the
-- request's unique name decides, so a take-back gets the same result. No client sees the name, so none can predict
-- which requests are logged.

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
