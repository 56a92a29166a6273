std = 'lua51'
read_globals = { 'redis', 'KEYS', 'ARGV', 'struct', 'bit', 'ngx', 'wrk' }
max_line_length = 125
ignore = { '431' } -- decide.lua gives a function the frame's own names as arguments: upvalues cost more
files['lua/*.lua'] = { read_globals = { 'LARGEST_COUNT', 'MOST_OWED', 'LONGEST_TIME', 'LATEST_TIME', 'MOST_OF_LOG', 'BLOCKED_UNTIL', 'BLOCKED_FOR', 'blocks_of_hash' } } -- of prelude.lua
files['lua/prelude.lua'] = { ignore = { '211' } } -- what is set there stands before the others, which read it
files['lua/decide.lua'] = { read_globals = { 'algorithm', 'overrides' } } -- the files of lua/ are functions of one script
files['lua/plain_*.lua'] = { ignore = { '311' } } -- what is set there stands before the frame, which reads it
files['lua/plain_hash.lua'] = { read_globals = { 'plain_of_hash' }, ignore = { '311' } }
files['lua/plain_rest.lua'] = { read_globals = { 'replies', 'left_over' }, globals = { 'KEYS', 'ARGV' } } -- of plain_*.lua
files['lua/sampled_log.lua'] = { read_globals = { 'exact_log' } }
files['lua/inflight.lua'] = { read_globals = { 'exact_log' } }
files['bench/load.lua'] = { allow_defined_top = true, ignore = { '111', '112', '113', '131' }, globals = { 'wrk' } }
