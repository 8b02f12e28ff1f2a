-- library: lowest - which payload of a record comes first

-- The place of the entry that is the first by score, then by arrival.
local function lowest(entries)
  local at = 1
  for i = 2, #entries do
    local a, b = entries[i], entries[at]
    if a.score < b.score or (a.score == b.score and a.stamp < b.stamp) then at = i end
  end
  return at
end
