-- What users have today: a limiter in nginx's Lua module, with the Lua Redis client, a pool of kept connections and
-- EVALSHA. The least that works: no response fields, no metrics, 500 when Redis fails.

local redis = require 'nginx.redis'

local limiter = {}

local function fail(what, err)
  ngx.log(ngx.CRIT, what, ': ', err)
  return ngx.exit(500)
end

function limiter.check(settings, key)
  local client = redis:new()
  client:set_timeouts(100, 100, 100)
  local ok, err = client:connect('127.0.0.1', settings.port)
  if not ok then
    return fail('connect', err)
  end

  local reply
  reply, err = client:evalsha(settings.script, 1, settings.prefix .. key .. '}',
    math.floor(ngx.now() * 1000), settings.window, settings.limit, settings.cap)
  if not reply then
    return fail('evalsha', err)
  end
  client:set_keepalive(10000, 100)

  if reply[1] == 0 then
    return ngx.exit(429)
  end
end

return limiter
