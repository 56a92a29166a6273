-- The block of a log that is a HASH: adds the functions that store and end it.

local it = ...

function it.block(log, length, till)
  redis.call('HSET', log.key, BLOCKED_UNTIL, string.format('%d', till), BLOCKED_FOR, string.format('%d', length))
end

function it.unblock(log)
  log.blocked = false
  redis.call('HDEL', log.key, BLOCKED_UNTIL, BLOCKED_FOR)
end

return it
