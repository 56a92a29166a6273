-- Stands behind the plain call of an algorithm. It hands logs in unusual cases to the frame, which adds its replies to
-- those of the other logs.

if left_over then
  local keys, arguments, costs, options = KEYS, ARGV, left_over.costs, left_over.options
  local latest = options and #ARGV - 1 or #ARGV
  local named = latest > 3
  KEYS, ARGV = {}, { '', replies = replies, places = left_over }
  for i = 1, #left_over do
    local at = #ARGV
    KEYS[i] = keys[left_over[i]]
    ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4] = '1', '1', named and arguments[left_over[i]] or '', ''
    if i == 1 or costs then  -- else the other logs have the same numbers
      ARGV[at + 4], ARGV[at + 5], ARGV[at + 6] = arguments[latest - 2], arguments[latest - 1], '0'
      local cost = costs and 'cost=' .. costs[left_over[i]]
      ARGV[at + 7], ARGV[at + 8] = arguments[latest], cost and options and cost .. ' ' .. options or cost or options or ''
    end
  end
end
