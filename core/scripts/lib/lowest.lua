-- library: lowest - which payload of a record comes first

local function comes_before(a, b) return a.score < b.score or a.score == b.score and a.stamp < b.stamp end

-- The place of the entry that is the first by score, then by arrival.
local function lowest(entries)
  local at = 1
  for i = 2, #entries do
    if comes_before(entries[i], entries[at]) then at = i end
  end
  return at
end
