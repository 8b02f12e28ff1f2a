-- Finds the setting whose name is nearly the given one, for the error of a misspelt name.

local spelling = {}

---How many bytes must be inserted, removed or replaced to make one of the other (Levenshtein).
---@param one string
---@param other string
---@return integer
function spelling.distance(one, other)
  local row = {}
  for at = 0, #other do
    row[at] = at
  end
  for place = 1, #one do
    local before
    before, row[0] = row[0], place
    for at = 1, #other do
      local replaced = before + (one:byte(place) == other:byte(at) and 0 or 1)
      before, row[at] = row[at], math.min(row[at] + 1, row[at - 1] + 1, replaced)
    end
  end
  return row[#other]
end

---What a message says behind an unknown name; "" where no known name is near.
---@param name any
---@param known string[]
---@return string
function spelling.did_you_mean(name, known)
  if type(name) ~= "string" then
    return ""
  end
  local nearest, apart = nil, math.huge
  for _, other in ipairs(known) do
    local distance = spelling.distance(name, other)
    if distance < apart then
      nearest, apart = other, distance
    end
  end
  return nearest and apart <= math.max(2, math.floor(#nearest / 3)) and (" (did you mean %s?)"):format(nearest) or ""
end

return spelling
