-- include: prelude keys change spread count_held record
-- ACQUIRE: takes a shard for a node if its owner, and the number of that ownership, are still those that the caller saw. What that
-- owner had claimed stands as running until recover.lua has looked at it.
-- When the caller already owns the shard, it keeps what it knows under a new lease, so that who found it dead before comes
-- too late; runs that it does not know are left for recover.lua to put back.
-- Each success changes the number, so a copy of a call that Redis executes later, from a connection that the caller has given up, changes
-- nothing.
--
-- KEYS: the shard's
-- ARGV: 1 generation
--       2 node
--       3 '1': no run that the caller knows can have ended without it
--       4 expected owner, '' for none; not looked at where it is the caller
--       5 expected number: the lease of the owner, or of a shard without one the fence of its last claim
--       6.. the runs that the caller knows: id, run. Of several runs of one id, the latest counts: a thread may still have an
--           earlier one, whose time to run was over
--
-- Returns {'OK', or 'KEPT' if it was the caller's, lease, seen, recovered, unfinished}
--   seen        what the first claim passes; Redis does not know later claims of the caller, because a failover has forgotten them
--   recovered   how many deaths the next claim answers
--   unfinished  1: recover.lua has something to do
-- or {'TAKEN', owner, number}: nothing was done
local me = ARGV[2]
local mine, number = owner == me, owner == '' and claimed or lease
if number ~= tonumber(ARGV[5]) or not mine and owner ~= ARGV[4] then return {'TAKEN', owner, format('%.0f', number)} end

probe()
count_held()
local since, pending = read_owner_field()
open_for_writing()
wake, window = 0, 0

if not mine then
  owner, lease = me, advance()
  claimed, settled, since = lease, 0, lease
  pending = held > 0 or call('HLEN', RUNNING) > call('HEXISTS', RUNNING, '')
  if held == 0 then call('DEL', CLAIMS) end
  if pending then flag_as(FLAG_UNFINISHED, true) end
  write_owner_field(since, pending)
  save()
  return {'OK', format('%.0f', lease), format('%.0f', claimed), 0, is(FLAG_UNFINISHED) and 1 or 0}
end

local known = {}
for i = 6, #ARGV, 2 do
  local id, run = ARGV[i], ARGV[i + 1]
  local other = known[id]
  if not other or tonumber(sub(other, 3)) < tonumber(sub(run, 3)) then known[id] = run end
end
-- Claims of a dead owner are not spread here: they are recover.lua's.
local claims = held > 0 and call('HGETALL', CLAIMS) or {}
for i = 1, #claims, 2 do
  if tonumber(claims[i]) >= since then
    if byte(claims[i + 1]) ~= SPREAD then spread_claim(claims[i], claims[i + 1]) end
    call('HDEL', CLAIMS, claims[i])
  end
end
if held == 0 then call('DEL', CLAIMS) end
lease = advance()

-- A run of a process that died alone with it, which is still to be reported: the next claim answers it (mode o), with its record.
local deaths, seen = 0, claimed
local function report(id, run)
  if deaths == 0 then claimed, seen = advance(), 0 end
  deaths = deaths + 1
  call('HSET', RUNNING, id, sub(run, 1, 1) .. RUN_DIED .. format('%.0f', claimed))
end

local runs, back = call('HGETALL', RUNNING), {}

-- After a failover pushes may have claimed for the caller before it has come back (hand_over.lua), so the last claim does not say which
-- of the caller's claims were forgotten. They are the first one of which a run is not there, and all later ones.
if ARGV[3] == '1' then
  local there = {}
  for i = 1, #runs, 2 do there[runs[i]] = sub(runs[i + 1], 2) end
  for id, run in pairs(known) do
    local fence = tonumber(sub(run, 3))
    if fence <= seen and there[id] ~= sub(run, 2) then seen = fence - 1 end
  end
  for id, run in pairs(known) do
    if tonumber(sub(run, 3)) > seen then known[id] = nil end
  end
end
for i = 1, #runs, 2 do
  local id, run = runs[i], runs[i + 1]
  local mode = sub(run, 2, 2)
  if id ~= '' and mode ~= RUN_UNITING and mode ~= RUN_LOST and mode ~= RUN_POPPED and tonumber(sub(run, 3)) >= since and (not known[id] or sub(known[id], 2) ~= sub(run, 2)) then
    if mode == RUN_DIED and digit_of(run) % RUN_TO_PARK < RUN_DELETED and call('HEXISTS', JOBS, id) == 1 then report(id, run)
    else back[#back + 1], back[#back + 2] = id, sub(run, 1, 1) .. 'b0'
    end
  end
end
for from = 1, #back, 1000 do
  call('HSET', RUNNING, unpack(back, from, min(from + 999, #back)))
end
for i = 1, #back, 2 do call('ZREM', OVERRUN, back[i]) end
if back[1] then
  pending = true
  flag_as(FLAG_UNFINISHED, true)
end
write_owner_field(since, pending)
save()
return {'KEPT', format('%.0f', lease), format('%.0f', seen), deaths, is(FLAG_UNFINISHED) and 1 or 0}
