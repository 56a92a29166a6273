-- Stands behind the plain call of an algorithm. It hands requests in unusual cases to the frame, which adds its replies to
-- those of the others.

if left_over then
  local keys, arguments, costs, options, has_two = KEYS, ARGV, left_over.costs, left_over.options, left_over.has_two
  local latest = (options or has_two) and #ARGV - 1 or #ARGV
  local first = has_two and latest - 3 or latest  -- of the numbers of the first log, or the only one, the last
  local named = first > 3
  KEYS, ARGV = {}, { '', replies = replies, places = left_over, moved = left_over.moved }
  for i = 1, #left_over do
    local at, place = #ARGV, left_over[i]
    ARGV[at + 1], ARGV[at + 2] = has_two and '2' or '1', '1'
    ARGV[at + 3], ARGV[at + 4] = named and arguments[place] or '', ''
    if i == 1 or costs or has_two then  -- else the other logs have the same numbers
      ARGV[at + 4], ARGV[at + 5], ARGV[at + 6] = arguments[first - 2], arguments[first - 1], '0'
      local cost = costs and 'cost=' .. costs[place]
      ARGV[at + 7], ARGV[at + 8] = arguments[first], cost and options and cost .. ' ' .. options or cost or options or ''
    end
    if has_two then
      KEYS[2 * i - 1], KEYS[2 * i] = keys[2 * place - 1], keys[2 * place]
      ARGV[at + 9], ARGV[at + 10], ARGV[at + 11] = arguments[latest - 2], arguments[latest - 1], '0'
      ARGV[at + 12], ARGV[at + 13] = arguments[latest], ''
    else
      KEYS[i] = keys[place]
    end
  end
end
