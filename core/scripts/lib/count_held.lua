-- library: count_held - counts what claims hold, for scripts that find another number than the state says. It needs spread.

-- Counts the ids that claims hold: Redis may have evicted the claims, or the state that counted them.
local function count_held()
  held = 0
  local claims = call('HVALS', CLAIMS)
  for i = 1, #claims do
    if byte(claims[i]) ~= SPREAD then held = held + #ids_of(claims[i]) end
  end
end
