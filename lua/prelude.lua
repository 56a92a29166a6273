-- In front of every script: the bounds of numbers, which src/limit/bounds.hpp explains, and the fields of a block in a
-- HASH (src/limit/block_form.hpp). Each call of each script runs this, so it makes no functions.
local LARGEST_COUNT = 1000000000000
local MOST_OWED = 1000000000000000
local LONGEST_TIME = 31622400000  -- ms
local LATEST_TIME = 999999999999999  -- ms
local MOST_OF_LOG = 1099511627775
local BLOCKED_UNTIL, BLOCKED_FOR = 'blocked until', 'blocked for'
