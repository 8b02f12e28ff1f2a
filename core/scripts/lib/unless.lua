-- library: unless - for a push to the new shards of ids while ids move, where one Redis has all shards: it also looks into the old shards.
-- An id that is not there will never be there again (here.lua), and whoever has this push has what was written before it: so no second call
-- is needed, and no replica is asked. Jobs whose id is still there, or on its way from there, are left out: given.elsewhere[place] is 'h'.
-- The jobs of an old shard follow one another. The tick is not below that of the old shards. KEYS and ARGV are those of push.lua. Afterwards
-- `given` is for push_jobs.lua.
local given = {}
if ARGV[5] ~= '2' and string.find(ARGV[5] or '', ' unless ', 1, true) then
  local width, list = string.match(ARGV[5], '^(%d+) unless ([%d:,-]+)$')
  if not width then return error_reply('ERR wrong step of a push') end
  if not state then return error_reply('GENERATION 1') end -- its turn makes it
  given.width = width
  local step, base, is_known = width % 10, string.gsub(PREFIX, '%d+}:$', ''), false

  -- The usual case is one job whose id is nowhere in its old shard: neither tables nor functions are made for it.
  local only = #ARGV == 6 + step and string.match(list, '^(%d+):1$')
  if only then
    local prefix = base .. only .. '}:'
    local other = call('GET', prefix .. 'state')
    if other and sub(other, 1, 8) == sub(state, 1, 8) then -- of the same generation
      local is_there = call('HEXISTS', prefix .. 'jobs', ARGV[7]) == 1
      is_known = is_there or call('EXISTS', prefix .. 'leaving', prefix .. 'dead', prefix .. 'scores', prefix .. 'scheduled') == 0
      if is_there then given.elsewhere = {'h', away = 1} end
      if is_known then tick = max(tick, (unpack_struct('<d', other, 9))) end
    end
  end

  if not is_known then
    local ids = {}
    local prefixes, firsts, lasts, states, others, jobs = {}, {}, {}, {}, {}, 0
    for number, count in string.gmatch(list, '([%d-]+):(%d+)') do
      if number ~= '-' then
        local k, prefix = #prefixes + 1, base .. number .. '}:'
        prefixes[k], firsts[k], lasts[k], states[k] = prefix, jobs + 1, jobs + count, prefix .. 'state'
        others[4 * k - 3], others[4 * k - 2], others[4 * k - 1], others[4 * k] = prefix .. 'leaving', prefix .. 'dead', prefix .. 'scores', prefix .. 'scheduled'
      end
      jobs = jobs + count
    end
    if #ARGV ~= 6 + step * jobs then return error_reply('ERR wrong number of arguments') end
    for i = 1, jobs do ids[i] = ARGV[7 + step * (i - 1)] end
    given.ids = ids

    -- include apart: here
    -- Of several old shards, is all but their jobs empty? It often is. Of one, find_elsewhere asks the same.
    local is_bare = prefixes[2] and call('EXISTS', unpack(others)) == 0
    states = prefixes[1] and call('MGET', unpack(states)) or states
    for k = 1, #prefixes do
      local prefix, first, last, known, latest = prefixes[k], firsts[k], lasts[k], 1, 0
      if states[k] then known, latest = unpack_struct('<dd', states[k]) end
      if not states[k] or known ~= generation then
        local text = call('HGET', prefix .. 'reshard', '')
        return error_reply(format('GENERATION %.0f', known) .. (text and ' ' .. text or ''))
      end
      tick = max(tick, latest)
      local old, noted = call('HMGET', prefix .. 'jobs', unpack(ids, first, last)), nil
      if not is_bare then
        noted = {}
        find_elsewhere(prefix, {unpack(ids, first, last)}, old, noted)
      end
      for i = 1, #old do
        if old[i] or noted and noted[i] ~= 'm' then
          given.elsewhere = given.elsewhere or {away = 0}
          given.elsewhere[first + i - 1], given.elsewhere.away = 'h', given.elsewhere.away + 1
        end
      end
    end
  end
end
