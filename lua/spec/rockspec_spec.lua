-- The rock holds every file of lua/ and bindings/lua, as a rockspec cannot look for them.

local function listed(command)
  local pipe, found = assert(io.popen(command)), {}
  for line in pipe:lines() do
    found[#found + 1] = line
  end
  pipe:close()
  table.sort(found)
  return found
end

local function load_rockspec()
  local spec = {}
  local chunk
  if setfenv then
    chunk = setfenv(assert(loadfile("seriatim-scm-1.rockspec")), spec)
  else
    chunk = assert(loadfile("seriatim-scm-1.rockspec", "t", spec))
  end
  chunk()
  return spec
end

describe("the rockspec", function()
  local build = load_rockspec().build
  local modules = build.modules

  it("copies the manual page and the completions that the command prints", function()
    local shell = require("support.command").shell()
    for _, folder in ipairs(build.copy_directories) do
      for _, ending in ipairs { "1", "bash", "zsh", "fish" } do
        local topic = ending == "1" and { "man" } or { "completion", ending }
        local file = assert(io.open(("%s/seriatim-lua.%s"):format(folder, ending)))
        assert.equal(shell:run(topic), file:read("*a"))
        file:close()
      end
    end
    assert.same({ "core/package/seriatim-lua" }, build.copy_directories)
    shell:remove()
  end)

  it("lists every Lua file under its module's name", function()
    local files = {}
    for name, file in pairs(modules) do
      if type(file) == "string" then
        assert.equal("lua/" .. name:gsub("%.", "/") .. ".lua", file)
        files[#files + 1] = file
      end
    end
    table.sort(files)
    assert.same(listed("find lua -name '*.lua' -not -path 'lua/spec/*' -not -path 'lua/types/*'"), files)
  end)

  it("lists every file of the glue", function()
    local sources = {}
    for _, file in ipairs(modules["seriatim.native"].sources) do
      sources[#sources + 1] = file
    end
    table.sort(sources)
    assert.same(listed("ls bindings/lua/*.c; echo core/src/all.c"), sources)
  end)
end)
