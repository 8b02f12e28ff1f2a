-- library: claims - how an entry of `claims` is read
local SPREAD = string.byte('x')

-- The ids of an entry of `claims`; none of one that cannot be read.
local function ids_of(packed)
  local ok, ids = pcall(cmsgpack.unpack, string.byte(packed) == SPREAD and string.sub(packed, 2) or packed)
  return ok and type(ids) == 'table' and ids or {}
end
