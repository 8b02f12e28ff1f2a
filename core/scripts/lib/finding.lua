-- library: finding - for checks of keys that a shard does not declare: what is wrong, and how it is mended. It needs `repair`, and `id`
-- where a key is an id's.
local found, fixes = {}, {}

local function find(finding, whose, detail, fix)
  local n = #found
  found[n + 1], found[n + 2], found[n + 3], found[n + 4] = finding, whose, detail, (repair and fix) and '1' or '0'
  if repair and fix then fixes[#fixes + 1] = fix end
end

-- Is the key of this type, or not there? A key of another type is put aside.
local function is_of(key, kind)
  local there, name = call('TYPE', key).ok, sub(key, #PREFIX + 1)
  if there == 'none' or there == kind then return true end
  find('type', id or '', format('%s is a %s, not a %s', name, there, kind), function()
    call('RENAME', key, format('%smisplaced:%s:%.0f', PREFIX, name, now))
  end)
  return false
end
