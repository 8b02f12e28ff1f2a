-- include: prelude change spread record
-- ACQUIRE: takes a shard for a node if its owner is still the one that the caller saw, and recovers that owner's runs.
-- When the caller already owns the shard, it keeps what it knows under a new lease, so that who found it dead before comes
-- too late; runs that it does not know are put back.
-- KEYS: the shard's
-- ARGV: 1 generation, 2 node, 3 fold, 4 expected owner ('' for none), 5 expected lease,
--       then the runs that the caller knows: id, run
-- Returns {'OK', or 'KEPT' if it was the caller's, lease, seen, recovered}: seen is what the first claim passes; or
--   {'TAKEN', owner, lease}
local me, fold = ARGV[2], ARGV[3]
local mine = owner == me
if not mine and (owner ~= ARGV[4] or lease ~= tonumber(ARGV[5])) then
  return {'TAKEN', owner, format('%.0f', lease)}
end

local known = {}
for i = 6, #ARGV, 2 do known[ARGV[i]] = ARGV[i + 1] end
probe()
open_for_writing()
spread()
local runs = call('HGETALL', RUNNING)
for i = 1, #runs, 2 do
  probe_spill(first, {runs[i]})
  probe_spill(second, {runs[i]})
end
call('DEL', CLAIMS)
owner, lease = me, advance()
if not mine then claimed, settled = lease, 0 end
call('HSET', RUNNING, '', string.rep('.', 65))
wake = 0

local recovered, seen = 0, claimed

-- The claim that follows hands it out as a death (mode o): its failure is to be counted.
local function report(id, run)
  if seen ~= 0 then claimed, seen = mine and advance() or lease, 0 end
  call('ZREM', OVERRUN, id)
  call('HSET', RUNNING, id, sub(run, 1, 1) .. 'o' .. format('%.0f', claimed))
end

-- What becomes of the run of a process that died: once more, then alone, then a failure.
local function died(id, run, r)
  local mode = sub(run, 2, 2)
  if mode == 's' or mode == 'o' then report(id, run) return end
  r.mark, r.due, r.place = mode == 'u' and SUSPECT_MARK or UNPROVEN_MARK, now, 3
  come_back(id, run, r, fold)
end

for i = 1, #runs, 2 do
  local id, run = runs[i], runs[i + 1]
  if id ~= '' and (not known[id] or sub(known[id], 2) ~= sub(run, 2)) then
    local r = record_of_run(id)
    recovered = recovered + 1
    if not r or digit_of(run) % 4 >= 2 then come_back(id, run, r, fold)
    elseif not mine then died(id, run, r)
    elseif sub(run, 2, 2) == 'o' then report(id, run)
    else come_back(id, run, r, fold)
    end
  end
end
save()
return {mine and 'KEPT' or 'OK', format('%.0f', lease), format('%.0f', seen), recovered}
