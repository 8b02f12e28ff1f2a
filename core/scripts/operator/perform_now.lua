-- include: prelude keys record admin
-- PERFORM_NOW: ids that are due later become due when the action began; retry_count stays. A slice a call.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 began ('0' at first), 3 cursor ('' at first)
-- Returns {began, cursor ('' at the end), changed}. An id that is new since the action began is not touched.
local PARTS = {
  due = {DUE, 'unproven'}, unproven = {UNPROVEN, 'suspect'}, suspect = {SUSPECT, is(FLAG_SOURCE) and 'moving' or 'next'},
  moving = {PREFIX .. 'moving', 'next'}, next = {NEXT, ''},
}
local part, cursor = string.match(ARGV[3], '^(%a+) (%d+)$')
if not part then part, cursor = 'due', '0' end
local store = part == 'next' and second or first
probe()
local page, ids = call(part == 'next' and 'HSCAN' or 'ZSCAN', PARTS[part][1], cursor, 'COUNT', 100), {}
for i = 1, #page[2], 2 do
  if part == 'next' or tonumber(page[2][i + 1]) > now then ids[#ids + 1] = page[2][i] end
end
local records = look(store, ids)

local began = begin(ARGV[2])
cursor = page[1] ~= '0' and part .. ' ' .. page[1] or PARTS[part][2] ~= '' and PARTS[part][2] .. ' 0' or ''
return perform_slice(began, store, records, cursor, function(r) return not came_since(began) or arrival(r) <= began end)
