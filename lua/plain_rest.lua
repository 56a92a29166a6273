-- Stands behind the plain call of an algorithm. It hands requests in unusual cases to the frame, which adds its replies to
-- those of the others.

if left_over then
  local keys, arguments, costs, has_two = KEYS, ARGV, left_over.costs, left_over.has_two
  local numbers = left_over.options and 4 or 3  -- of a log, with its options
  local second = (has_two and #ARGV - 1 or #ARGV) - numbers  -- what precedes those of the last log
  local first = has_two and second - numbers or second
  local named = first > 0
  local options = left_over.options and arguments[first + 4]
  KEYS, ARGV = {}, { '', replies = replies, places = left_over, moved = left_over.moved }
  for i = 1, #left_over do
    local at, place = #ARGV, left_over[i]
    ARGV[at + 1], ARGV[at + 2] = has_two and '2' or '1', '1'
    ARGV[at + 3], ARGV[at + 4] = named and arguments[place] or '', ''
    if i == 1 or costs or has_two then  -- else the other logs have the same numbers
      ARGV[at + 4], ARGV[at + 5], ARGV[at + 6] = arguments[first + 1], arguments[first + 2], '0'
      local cost = costs and 'cost=' .. costs[place]
      ARGV[at + 7], ARGV[at + 8] = arguments[first + 3], cost and options and cost .. ' ' .. options or cost or options or ''
    end
    if has_two then
      KEYS[2 * i - 1], KEYS[2 * i] = keys[2 * place - 1], keys[2 * place]
      ARGV[at + 9], ARGV[at + 10], ARGV[at + 11] = arguments[second + 1], arguments[second + 2], '0'
      ARGV[at + 12], ARGV[at + 13] = arguments[second + 3], options and arguments[second + 4] or ''
    else
      KEYS[i] = keys[place]
    end
  end
end
