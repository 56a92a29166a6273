-- In front of every script: the bounds of numbers, which src/limit/bounds.hpp explains, and a block in a HASH
-- (src/limit/block_form.hpp).
local LARGEST_COUNT = 1000000000000
local MOST_OWED = 1000000000000000
local LONGEST_TIME = 31622400000  -- ms
local LATEST_TIME = 999999999999999  -- ms
local MOST_OF_LOG = 1099511627775
local BLOCKED_UNTIL, BLOCKED_FOR = 'blocked until', 'blocked for'

-- Adds the functions that store and end the block of a log that is a HASH.
local function blocks_of_hash(it)
  function it.block(log, length, till)
    redis.call('HSET', log.key, BLOCKED_UNTIL, string.format('%d', till), BLOCKED_FOR, string.format('%d', length))
  end

  function it.unblock(log)
    log.blocked = false
    redis.call('HDEL', log.key, BLOCKED_UNTIL, BLOCKED_FOR)
  end

  return it
end
