-- library: find_payload - for cancel and reschedule: finds one payload in the records of its id, by its arrival (the stamp that a handle
-- names), and takes it out. Scheduled payloads, which lie elsewhere, are in scheduled.lua. It needs record and admin.
-- include: places

-- The entry with this stamp (8 bytes >d) in a record, or nil; and where to go on ('' at the end). In a spilled record, which is in
-- the order of scores, some 2,500 entries a call are looked at.
local function find_arrival(store, id, r, stamp, cursor)
  local number = unpack_struct('>d', stamp)
  if r.entries then
    for i = 1, #r.entries do
      if r.entries[i].stamp == number then return r.entries[i], '' end
    end
    return nil, ''
  end
  if number < r.first or number > r.last then return nil, '' end
  local pattern = string.gsub(stamp, '.', '\\%0') .. '*'
  if cursor == '' then cursor = '0' end
  for _ = 1, 5 do
    local page = call('ZSCAN', store.spill .. id, cursor, 'MATCH', pattern, 'COUNT', 500)
    local member = page[2][1]
    if member then
      local context = call('HGET', store.map .. id, 'c' .. stamp) or ''
      return {stamp = number, score = tonumber(page[2][2]), context = context, payload = sub(member, 9)}, ''
    end
    cursor = page[1]
    if cursor == '0' then return nil, '' end
  end
  return nil, cursor
end

-- Looks for a payload in the records of an id. Returns its entry, its record and its store, or nil; and, where there is more to look at,
-- where to go on, else ''.
local function look_for(id, stamp, text)
  local at, cursor = string.match(text, '^(%d):(%d*)$')
  at, cursor = tonumber(at) or 1, cursor or ''
  local stores = places_to_look(id)
  for i = at, #stores do
    local r = look(stores[i], {id})[id]
    local e, following
    if r then e, following = find_arrival(stores[i], id, r, stamp, cursor) end
    if e then return e, r, stores[i], '' end
    if following and following ~= '' then return nil, nil, nil, i .. ':' .. following end
    cursor = ''
  end
  return nil, nil, nil, ''
end

-- Takes an entry out of its record; with the last one the id goes, but for one that is uniting, which recover.lua ends.
local function take_entry(store, id, r, e)
  if r.entries then
    local kept = {}
    for i = 1, #r.entries do
      if r.entries[i] ~= e then kept[#kept + 1] = r.entries[i] end
    end
    r.entries = kept
  else
    remove_spilled(store, id, r, {e})
  end
  if not empty(r) or store == first and run_of(id) then rewrite(store, id, r) else remove(store, id, r) end
end
