-- library: unless - for a push to the new shards of ids while ids move, where one Redis has all shards: it also looks into the old shards.
-- An id that is not there will never be there again (here.lua), and whoever has this push has what was written before it: so no second call
-- is needed, and no replica is asked. Jobs whose id is still there, or on its way from there, are left out: ARGV.elsewhere[place] is 'h'.
-- ARGV[5] is without ' unless ...' behind this, and the tick is not below that of the old shards. KEYS and ARGV are those of push.lua.
local ARGV = ARGV
if string.find(ARGV[5] or '', ' unless ', 1, true) then
  local width, list = string.match(ARGV[5], '^(%d+) unless ([%d,-]+)$')
  if not width then return error_reply('ERR wrong step of a push') end
  if not state then return error_reply('GENERATION 1') end -- its turn makes it
  local given, at, place, numbers, ids_of, places_of = {unpack(ARGV)}, 7, 0, {}, {}, {}
  given[5] = width
  for number in string.gmatch(list, '[^,]+') do
    local id = ARGV[at]
    at, place = at + width % 10, place + 1
    if number ~= '-' and id then
      if not ids_of[number] then numbers[#numbers + 1], ids_of[number], places_of[number] = number, {}, {} end
      table.insert(ids_of[number], id)
      table.insert(places_of[number], place)
    end
  end
  if at ~= #ARGV + 1 then return error_reply('ERR wrong number of arguments') end

  -- include apart: here
  local prefixes, states, others = {}, {}, {}
  for k = 1, #numbers do
    local prefix = string.gsub(PREFIX, '%d+}:$', '') .. numbers[k] .. '}:'
    prefixes[k], states[k] = prefix, prefix .. 'state'
    others[4 * k - 3], others[4 * k - 2], others[4 * k - 1], others[4 * k] = prefix .. 'leaving', prefix .. 'dead', prefix .. 'scores', prefix .. 'scheduled'
  end
  local is_bare = numbers[2] and call('EXISTS', unpack(others)) == 0 -- often, and then one command answers for all of them
  states = numbers[1] and call('MGET', unpack(states)) or states
  for k = 1, #numbers do
    local ids, places, prefix, noted, known, latest = ids_of[numbers[k]], places_of[numbers[k]], prefixes[k], {}, 1, 0
    if states[k] then known, latest = unpack_struct('<dd', states[k]) end
    if not states[k] or known ~= generation then
      local text = call('HGET', prefix .. 'reshard', '')
      return error_reply(format('GENERATION %.0f', known) .. (text and ' ' .. text or ''))
    end
    tick = max(tick, latest)
    find_elsewhere(prefix, ids, call('HMGET', prefix .. 'jobs', unpack(ids)), noted, is_bare)
    for i = 1, #ids do
      if noted[i] ~= 'm' then
        given.elsewhere = given.elsewhere or {away = 0}
        given.elsewhere[places[i]], given.elsewhere.away = 'h', given.elsewhere.away + 1
      end
    end
  end
  ARGV = given
end
