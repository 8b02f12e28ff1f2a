-- library: prelude - the keys and the state of one shard; every shard script begins with it. It has no functions: to make
-- one takes as long as a command
--
-- KEYS, the first two of every shard script; each further key costs Redis about a quarter of a command:
--    1 state     string  the fields below, packed
--    2 guard     never there. While a cluster moves the slot, Redis runs a script only where all declared keys exist: without the
--                guard a script could run, and fail behind its first write at a key that is absent and not declared
-- The other keys of the shard have the same prefix. The prelude names jobs, ready and claims, and keys.lua ten more; a key that few
-- scripts use is named where it is used (docs/internals/layout.md lists all).
--      jobs      hash    id -> record: waiting, parked or running
--      ready     list    ids due since their push (entries may be stale: the record decides)
--      claims    hash    fence -> ids (MessagePack) of a claim whose runs are all '0n' and noted nowhere else; behind
--                        an 'x' when they were spread into running
-- ARGV[1] is always the caller's layout generation. While ids move, a step may follow it:
--      ' here PLACE'  in a call to the old shard of the id ARGV[PLACE], the one id of the call
--      ' from TICK'   in the call to the new shard of the id, after the answer 'moved TICK', so that what arrives there comes later
-- Error replies: GENERATION N TEXT: reload the layout; N is the shard's generation, TEXT its layout, nothing if it never was of another one
--                ELSEWHERE moved TICK: the id is not here (lib/here.lua); ELSEWHERE again TICK: it is on its way
local call, error_reply = redis.call, redis.error_reply
local byte, sub, char, format = string.byte, string.sub, string.char, string.format
local pack, unpack_struct, unpack = struct.pack, struct.unpack, unpack
local max, min = math.max, math.min
local STATE = KEYS[1]
local PREFIX = sub(STATE, 1, -6)
local JOBS, READY, CLAIMS = PREFIX .. 'jobs', PREFIX .. 'ready', PREFIX .. 'claims'
local FOREVER = 9e15

local clock = call('TIME')
local now = clock[1] * 1000000 + clock[2]

-- The fields of the state, in the order in which they are packed (core/src/model/stored.h). Times are in microseconds of Redis' clock;
-- a fence is a tick at which something was claimed or owned.
--      generation   of the layout
--      tick         the last fence or arrival stamp
--      lease        fence of the present ownership; 0: none
--      claimed      fence of the last claim
--      settled      sequence of the last settle
--      wake         the owner sleeps until then; 0: it is awake
--      processed, failed, refused  how many ids were settled so
--      pushed       how many jobs pushes accepted
--      held         how many ids claims hold
--      flags        bits, FLAG_*
--      delivers     the smallest deliver_at of the scheduled payloads; FOREVER: there are none
--      removed      how many dead ids trim_morgue.lua removed
--      history      how many events are kept of an id, as the last push, claim or pop said
--      stale        how many jobs were refused or removed because of their score
--      remembers    1: the queue has remember_score, as the last push with options or claim said
--      ends         no run of a popper ends before this time; FOREVER: none runs
--      asleep       poppers sleep until then; 0: none sleeps
--      window       a push claims its job for the owner (hand_over.lua) while held is smaller: what the last claim said, less the runs
--                   that `running` has
--      owner        the node that has the lease
local generation, tick, lease, claimed, settled, wake = tonumber(ARGV[1]), 0, 0, 0, 0, 0
local processed, failed, refused, pushed, held, flags, delivers, removed, history, stale, remembers, owner = 0, 0, 0, 0, 0, 0, FOREVER, 0, 0, 0, 0, ''
local ends, asleep, window = FOREVER, 0, 0

local state = call('GET', STATE)
if state then
  local given = generation
  generation, tick, lease, claimed, settled, wake, processed, failed, refused, pushed, held, flags, delivers, removed, history, stale, remembers,
    ends, asleep, window =
    unpack_struct(STATE_FORMAT, state)
  owner = sub(state, STATE_OWNER + 1)
  if generation ~= given then
    local wanted, step, number = string.match(ARGV[1], '^(%d+) ?(%l*) ?(%d*)$')
    wanted = tonumber(wanted)
    -- A shard that close.lua has closed is of the next generation, negative: whoever knows that one opens it by the first write.
    if generation ~= wanted and generation ~= -wanted then
      local text = call('HGET', PREFIX .. 'reshard', '')
      return error_reply(format('GENERATION %.0f', generation) .. (text and ' ' .. text or ''))
    end
    generation = wanted
    if step == 'from' then
      tick = max(tick, tonumber(number))
    elseif step == 'here' then
      local id = ARGV[tonumber(number)]
      local score = call('HGET', PREFIX .. 'scores', id)
      if call('HEXISTS', PREFIX .. 'leaving', id) == 1 then return error_reply(format('ELSEWHERE again %.0f', tick)) end
      if call('HEXISTS', JOBS, id) + call('HEXISTS', PREFIX .. 'dead', id) + call('EXISTS', PREFIX .. 'sched:' .. id) == 0
        and not (score and #score == 16 and select(2, unpack_struct('<dd', score)) > now) then
        -- include apart: absence
        return error_reply(format('ELSEWHERE moved %.0f', tick))
      end
    end
  end
elseif not generation then -- nothing was ever in the shard
  -- A turn makes it, as the layout says whether it is paused. Until then it takes jobs of an earlier layout, so it does not say of an id
  -- that it has moved.
  return error_reply('GENERATION 1')
end

-- What happened to ids, for their histories (note.lua, events.lua); nil where none are kept.
local events = history > 0 and {} or nil

-- The smallest due time of the ids that this script made claimable: save.lua tells poppers that sleep for longer.
local placed = FOREVER
