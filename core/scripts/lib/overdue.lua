-- library: overdue - ends runs whose time is over, for the next claim or pop in a shard. It needs note, record, notify and outcome.
-- A run of a node that took longer than ttr comes back as it was, due now, and counts as no failure: a worker that always kills its
-- process is found by the lease. A run of a popper that was not acknowledged counts as a failure: a popper has no lease, so nothing
-- else would ever end an id that kills every popper.

-- After a run of a popper has left `running` and `overrun`: the state says so.
local function leave_popped()
  if call('ZCARD', OVERRUN) == 0 then ends = FOREVER end
  if not is(FLAG_ALONE) then return end
  flag_as(FLAG_ALONE, false)
  placed = 0
end

-- The run of a popper ends without an acknowledgement: counts the pop.
local function count_pop(r) r.pops = (r.pops or 0) + 1 end

local function is_deleted(digit) return digit % RUN_TO_PARK >= RUN_DELETED end

-- limit: max_retry_count; action: on_exhausted. Returns how many bytes the call may have moved, at most.
local function expire_popped(id, run, to, limit, action, hooked)
  local r, digit = record_of_run(id), digit_of(run)
  local ttr = to - tonumber(sub(run, 3)) -- negative if the clock was set back: the fence did not follow it
  local text = ttr > 0 and format('not acknowledged within %.6g s', ttr / 1e6) or 'not acknowledged in time'
  call('HDEL', RUNNING, id)
  call('ZREM', OVERRUN, id)
  leave_popped()
  if not r or is_deleted(digit) then
    failed = failed + 1
    note(id, EVENT_FAILED, 0, text)
    finish(id, digit)
  else
    count_pop(r)
    fail(id, r, digit, 0, text, limit, action, hooked)
  end
  return r and r.largest or 0
end

local function expire_claimed(id, run)
  local r = record_of_run(id)
  if r then
    r.due, r.place = now, PLACE_DUE
    note(id, EVENT_OVERRUN)
  end
  come_back(id, run, r, FOLD)
end

-- Ends the runs of a list of id, end, ... whose ends have all passed, behind probe_overdue; the next call does the rest if that moves
-- many bytes.
local function end_overdue(list, limit, action, hooked)
  local since, moved = read_owner_field(), 0
  call('ZREM', DUE, '') -- at maxmemory Redis allows what follows an allowed first write
  for i = 1, #list, 2 do
    if moved > PORTION_BYTES then break end
    local id, run = list[i], call('HGET', RUNNING, list[i])
    call('ZREM', OVERRUN, id)
    if run and sub(run, 2, 2) == RUN_POPPED then
      moved = moved + expire_popped(id, run, tonumber(list[i + 1]), limit, action, hooked)
    elseif run and tonumber(sub(run, 3)) >= since then -- a dead owner's is recover.lua's
      expire_claimed(id, run)
    end
  end
  ends = tonumber(call('ZRANGE', OVERRUN, 0, 0, 'WITHSCORES')[2]) or FOREVER
end
