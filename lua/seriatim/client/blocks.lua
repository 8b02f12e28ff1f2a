-- Which block a coroutine is in: that of pipelined, or of pipelined of an ick object.

local blocks = {}

---The blocks of one kind that were entered.
---@class seriatim.Blocks
---@field entered table<any, table>  by coroutine; those of coroutines that ended in between vanish
local Blocks = {}
Blocks.__index = Blocks

---@return seriatim.Blocks
function blocks.new()
  return setmetatable({ entered = setmetatable({}, { __mode = "k" }) }, Blocks)
end

---Which coroutine runs: the main one of LuaJIT and Lua 5.1 has no value of its own.
local function running()
  return coroutine.running() or "main"
end

---The block is a parameter so that the stack of the coroutine holds it. No tail call, which would take it from the stack.
local function run(_, calls, ...)
  local ok, raised = pcall(calls, ...)
  return ok, raised
end

---Does the running coroutine run the function of this block?
local function is_on_stack(block)
  local level = 2
  local info = debug.getinfo(level, "f")
  while info do
    if info.func == run and select(2, debug.getlocal(level, 1)) == block then
      return true
    end
    level = level + 1
    info = debug.getinfo(level, "f")
  end
  return false
end

---The block that the running coroutine is in; nil: it is in none. nginx ends a light thread without a word to its functions, not
---even to pcall, and runs the next one in the same coroutine: what the last one had entered is dropped here.
---@return table?
function Blocks:current()
  local here = next(self.entered) and running()
  local block = here and self.entered[here]
  if block and not is_on_stack(block) then
    self.entered[here], block = nil, nil
  end
  return block or nil
end

---Calls the function inside of this block. An error of the function is raised again.
---@param block table
---@param calls fun(...)
---@param ... any  what the function gets
function Blocks:enter(block, calls, ...)
  local here = running()
  local outer = self.entered[here] -- that of the parent, in a child of fork
  self.entered[here] = block
  local ok, raised = run(block, calls, ...)
  self.entered[here] = outer
  if not ok then
    error(raised, 0)
  end
end

return blocks
