-- The bounds of numbers, in front of every script: those of src/limit/bounds.hpp, which explains them.
local LARGEST_COUNT = 1000000000000
local MOST_OWED = 1000000000000000
local LONGEST_TIME = 31622400000  -- ms
local LATEST_TIME = 999999999999999  -- ms
local MOST_OF_LOG = 1099511627775
