-- What wrk does: wrk [options] -s load.lua URL -- PATH KEYS PASS
--   PATH   of the request, which gets ?k=KEY
--   KEYS   how many keys, picked at random; 1 is one hot key
--   PASS   load    as fast as the server can
--          count   the same, and every status is counted, which makes the load generator slower
--          paced   each connection pauses PAUSE milliseconds on average between its requests
-- Prints one line of name=value.
--
-- wrk runs init() in each thread, and setup() and done() in a state of their own; there is one thread.

local PAUSE = 5

local thread

function setup(the_thread)
  thread = the_thread
end

passed, denied, other = 0, 0, 0

function init(args)
  local path, keys, pass = args[1], tonumber(args[2]), args[3]

  -- Picked at random, as by clients who know nothing of each other: when they took turns, exactly one entry would
  -- leave a log between two requests of its key. The same sequence in every run.
  local front, back = wrk.format('GET', path .. '?k=acct_#'):match('^(.*)#(.*)$')
  math.randomseed(1)
  local random = math.random
  function request()
    return front .. random(keys) .. back
  end

  if pass == 'count' then
    function response(status)
      if status >= 200 and status < 300 then
        passed = passed + 1
      elseif status == 429 then
        denied = denied + 1
      else
        other = other + 1
      end
    end
  elseif pass == 'paced' then
    function delay()
      return math.random(0, 2 * PAUSE)
    end
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'requests=%d microseconds=%d refused=%d broken=%d p50=%d p99=%d passed=%d denied=%d other=%d\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99),
    thread:get('passed'), thread:get('denied'), thread:get('other')))
end
