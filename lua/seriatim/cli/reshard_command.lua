-- Gives a queue another number of shards, and shows how far its servers are with its ids. Nothing depends on this process: it
-- may be killed at any moment and run again.
local codes = require "seriatim.cli.exit_codes"
local output = require "seriatim.cli.output"
local tables = require "seriatim.cli.tables"
local metrics = require "seriatim.client.metrics"
local errors = require "seriatim.errors"
local log = require "seriatim.log"
local native = require "seriatim.native"

local LOOK_SECONDS = 0.5 -- between two looks; after one that took long, ten times as long
local SHOW_SECONDS = 5 -- between two lines that differ
local ALIVE_SECONDS = 60 -- after which a line that has not changed is shown again

---@class seriatim.ReshardCommand
local ReshardCommand = {}
ReshardCommand.__index = ReshardCommand

local reshard_command = {}

---@param worker seriatim.Worker  of a queue that is there
---@param options table  no_wait, status, json
---@return seriatim.ReshardCommand
function reshard_command.new(worker, options)
  local quoted = native.dump(log.utf8(worker.queue_name), "text")
  return setmetatable({ worker = worker, options = options, quoted = quoted, took = 0 }, ReshardCommand)
end

---With --json there is one line, at the end.
function ReshardCommand:say(text)
  if not self.options.json then
    output.write(log.printable(text), "\n")
    output.flush()
  end
end

---Also tells whether a living node owns one of the shards that ids leave.
function ReshardCommand:look()
  self.metrics = errors.must(self.worker:metrics())
  self.move, self.served = self.metrics.resharding, false
  if not self.move then
    return
  end
  for _, node in ipairs(errors.must(metrics.nodes())) do
    for number = 1, self.move.from do
      self.served = self.served or self.metrics.shards[number].owner == node.name
    end
  end
end

function ReshardCommand:goes_on(shards)
  return self.move ~= nil and self.move.to == shards
end

function ReshardCommand:say_begun(shards, begun)
  if begun then
    self:say(("the queue %s is given %d shards"):format(self.quoted, shards))
  elseif self:goes_on(shards) then
    self:say(("the ids of the queue %s are on their way to %d shards already"):format(self.quoted, shards))
  end
end

function ReshardCommand:progress()
  local move = self.move
  local line = ("%d ids moved, about %d left; ids leave %d of %d shards"):format(move.ids_moved, move.ids_left, move.shards_left, move.from)
  return self.served and line or line .. "; no living server owns one of them: ids move when one does"
end

---After a while. False: it is interrupted.
function ReshardCommand:look_again()
  if native.signal(math.max(LOOK_SECONDS, 10 * self.took)) then
    return false
  end
  local began = native.time()
  self:look()
  self.took = native.time() - began
  return true
end

---Until the ids have moved. False: it was interrupted before.
function ReshardCommand:watch(shards)
  local shown, at
  while self:goes_on(shards) do
    local line, age = self:progress(), native.time() - (at or 0)
    if not shown or age >= ALIVE_SECONDS or (age >= SHOW_SECONDS and line ~= shown) then
      self:say(line)
      shown, at = line, native.time()
    end
    if not self:look_again() then
      return false
    end
  end
  return true
end

function ReshardCommand:report()
  local move, count = self.move, #self.metrics.shards
  if self.options.json then
    tables.print_json { queue = self.worker.queue_name, shards = move and move.to or count, resharding = move or native.null }
  elseif not move then
    self:say(("the queue %s has %d shards"):format(self.quoted, count))
  else
    if self.options.status then
      self:say(("the queue %s is given %d shards instead of %d"):format(self.quoted, move.to, move.from))
    end
    self:say(self:progress())
  end
end

---The exit code. Without a number it only says how far it is.
---@param shards integer?
---@return integer
function ReshardCommand:run(shards)
  errors.must(native.catch_signals { "INT" }) -- it ends only the watch
  local begun = shards and errors.must(self.worker.actions:reshard(shards)) > 0
  self:look()
  if shards then
    self:say_begun(shards, begun)
    if not self.options.no_wait and not self:watch(shards) then
      self:say(("the servers go on with the ids of the queue %s"):format(self.quoted))
      return codes.STOPPED
    end
  end
  self:report()
  return codes.STOPPED
end

return reshard_command
