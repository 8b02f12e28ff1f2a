-- The settings, which are the module's fields.

local seriatim = require "seriatim"
local settings = require "seriatim.settings"
local suite = require "support.suite"

local NAN = 0 / 0

local REFUSED = {
  poll_interval = { 0, "1", NAN, true },
  threads_per_node = { 0, 1.5 },
  redis = {
    5, "", "5", "localhost:6379", "redis:", "http://x", "redis+sentinels://x/m", "redis://h:0", "redis://h/x", "unix://", "redis://a b",
  },
  client_pool_size = { 0 },
  pool_timeout = { -1 },
  server_middlewares = { 5, "x", { a = print } },
  client_middlewares = { { a = 1 }, "x" },
  on_server_init = { 5 },
  on_thread_init = { 5 },
  last_words = { 5 },
  build_scheduler = { 5 },
  build_splitter = { 5 },
  dump_payload = { "x" },
  load_payload = { 5 },
  format_error = { 5 },
  dump_error = { 5 },
  load_error = { 5 },
  lease_time = { 0.1, 4000 },
  stop_timeout = { -1 },
  push_timeout = { 0.09, 51, NAN },
  wait_replicas = { -1, 1001, 1.5, "1" },
  wait_timeout = { 0, 11, NAN },
  namespace = { "", ("x"):rep(129), 5, "a\0b", "\0" },
  workers = { 5, "x" },
}
local NILABLE = { redis = true, dump_payload = true, load_payload = true, on_server_init = true, on_thread_init = true, last_words = true }

describe("a setting", function()
  before_each(seriatim.reset_settings)
  after_each(seriatim.reset_settings)

  for _, name in ipairs(settings.names) do
    it("refuses bad values: " .. name, function()
      local before = seriatim[name]
      for _, value in ipairs(REFUSED[name]) do
        suite.raises("^" .. name .. " must be ", function() seriatim[name] = value end)
      end
      if not NILABLE[name] then
        suite.raises("^" .. name .. " must be ", function() seriatim[name] = nil end)
      end
      assert.equal(before, seriatim[name])
    end)
  end

  it("is refused at the caller's line, with its value", function()
    local raised = suite.raises("", function() seriatim.lease_time = "soon" end)
    assert.matches("settings_spec.lua:%d+: seriatim: lease_time must be a number of seconds from 0.2 to 3600, " ..
      "not 'soon' %(string%)$", raised)
  end)

  it("that is a URL has a scheme of Redis, in any case, or is refused at once", function()
    local urls = {
      "redis://h", "rediss://h", "unix:///s", "unix:/s", "redis+sentinel://h/m", "rediss+sentinel://h/m", "redis+cluster://h,g",
      "rediss+cluster://h", "REDIS://user:p%40ss@[::1]:7/3",
    }
    for _, url in ipairs(urls) do
      seriatim.redis = url
      assert.equal(url, seriatim.redis)
    end
    local rule = "^redis must be a URL, a function that gives one, or nil%s: the scheme must be redis://, rediss://, unix://, .*%s$"
    local refused = {
      ["5"] = { ", not '5' %(string%)", "" },
      [""] = { ", not '' %(string%)", "" },
      ["localhost:6379"] = { "", ", and localhost:6379 has none" },
      ["http://x"] = { "", ", not http://" },
    }
    for url, said in pairs(refused) do
      local raised = suite.raises(rule:format(said[1], said[2]), function() seriatim.redis = url end)
      assert.matches("settings_spec.lua:%d+: seriatim: ", raised)
    end
    suite.raises("^redis must be .*: the database must be a whole number", function() seriatim.redis = "redis://h/x" end)
    assert.equal(urls[#urls], seriatim.redis)
  end)

  it("that is a URL does not show its password where it is refused", function()
    for _, url in ipairs { "http://me:secret@h", "me:secret@h:1", "redis://:secret", "redis://h/secret", "h?sentinel_password=secret" } do
      local raised = suite.raises("^redis must be ", function() seriatim.redis = url end)
      assert.is_nil(raised:find("secret", 1, true))
    end
  end)

  it("that is a namespace has no zero byte", function()
    local rule = "^namespace must be a text of 1 to 128 bytes without a zero byte, not 'a\\0b' %(string%)$"
    suite.raises(rule, function() seriatim.namespace = "a\0b" end)
    seriatim.namespace = " {a}:\195\169\255\n"
    assert.equal(" {a}:\195\169\255\n", seriatim.namespace)
  end)

  it("has a default", function()
    local defaults = {
      poll_interval = 1, threads_per_node = 5, client_pool_size = 5, pool_timeout = 5, lease_time = 10, stop_timeout = 25,
      namespace = "seriatim",
    }
    for name, value in pairs(defaults) do
      assert.equal(value, seriatim[name])
    end
    for _, name in ipairs { "redis", "dump_payload", "load_payload" } do
      assert.is_nil(seriatim[name])
    end
    assert.same({ {}, {}, {} }, { seriatim.workers, seriatim.server_middlewares, seriatim.client_middlewares })
    for _, name in ipairs { "on_server_init", "on_thread_init", "last_words" } do
      assert.same({}, seriatim[name].functions)
    end
    assert.equal("text", seriatim.format_error { message = "text" })
    assert.equal("text", seriatim.format_error "text")
    seriatim.reset_settings()
    local lines = { "one\ntwo" }
    local traceback = "stack traceback:"
    for line = 1, 20 do
      traceback = traceback .. "\n\tline " .. line
      lines[#lines + 1] = line <= 10 and "line " .. line or nil
    end
    assert.equal(table.concat(lines, "\n"), seriatim.format_error("one\ntwo", traceback))
    assert.equal("x" .. ("\195\188"):rep(2047), seriatim.format_error("x" .. ("\195\188"):rep(5000)))
    assert.equal("text", seriatim.dump_error(seriatim.load_error("text")))
    assert.equal(seriatim.build_lag_scheduler(), seriatim.build_scheduler())
    assert.is_nil(seriatim.build_splitter()({}))
  end)

  it("cannot be misspelt", function()
    local text = "^there is no setting 'lease_tme' %(did you mean lease_time%?%); there are workers, poll_interval"
    suite.raises(text, function() seriatim.lease_tme = 2 end)
    assert.is_nil(seriatim.lease_tme)
  end)

  it("that is a list of functions names the one that is none", function()
    suite.raises("^client_middlewares%[2%] must be a function, not 5 %(number%)$", function() seriatim.client_middlewares = { print, 5 } end)
    table.insert(seriatim.client_middlewares, 5)
    suite.raises("^client_middlewares%[1%] must be a function, not 5 %(number%)$", function()
      seriatim.worker({ name = "A" }):perform_async { { id = 1 } }
    end)
  end)

  it("that is a list is live, and one of hooks takes functions", function()
    table.insert(seriatim.server_middlewares, function(_, _, next) return next() end)
    assert.equal(1, #settings.server_middlewares)
    local function first() end
    local function second() end
    assert.equal(first, seriatim.on_server_init(first))
    seriatim.on_server_init(second)
    assert.same({ first, second }, seriatim.on_server_init.functions)
    seriatim.on_server_init = second
    assert.same({ second }, seriatim.on_server_init.functions)
    seriatim.on_server_init = nil
    assert.same({}, seriatim.on_server_init.functions)
    seriatim.last_words(first)
    seriatim.last_words:clear()
    assert.same({}, seriatim.last_words.functions)
    suite.raises("^hook must be a function", function() seriatim.last_words(5) end)
  end)

  it("knows whether it was set", function()
    assert.is_false(settings.workers_set() or settings.was_set("threads_per_node"))
    seriatim.workers = {}
    seriatim.threads_per_node = 5
    assert.is_true(settings.workers_set() and settings.was_set("threads_per_node"))
    seriatim.reset_settings()
    table.insert(seriatim.workers, "app")
    assert.is_true(settings.workers_set())
  end)
end)

describe("the module", function()
  it("refuses a C module of another version", function()
    local program = [[package.preload["seriatim.native"] = function() return { version = "0" } end; require "seriatim"]]
    local text = suite.run({}, program)
    assert.matches("was loaded with the C module of 0; compile it again", text)
  end)

  it("refuses to have something else in the place of a function", function()
    local worker, null = seriatim.worker, seriatim.null
    local text = "^there is no setting 'worker' %(did you mean workers%?%); there are workers, poll_interval"
    assert.matches("settings_spec.lua:%d+: ", suite.raises(text, function() seriatim.worker = {} end))
    suite.raises("^there is no setting 'array'; there are ", function() seriatim.array = nil end)
    suite.raises("^there is no setting 'null'; there are ", function() seriatim.null = print end)
    assert.same({ worker, null }, { seriatim.worker, seriatim.null })
  end)

  it("lets a test replace a function", function()
    local replaced = stub(seriatim, "pipelined")
    seriatim.pipelined()
    assert.stub(replaced).was_called(1)
    replaced:revert()
    assert.equal(require("seriatim.client.pipeline").pipelined, seriatim.pipelined)
  end)

  it("is the same by the name of that for nginx, outside of nginx", function()
    local program = [[ngx = {} print(require "resty.seriatim" == require "seriatim", require("resty.seriatim").push_later)]]
    assert.equal("true\tnil\n", suite.run({}, program))
  end)

  it("shows any value in a message on one line", function()
    local validate = require "seriatim.client.validate"
    assert.equal("'a\\10b\\0' (string)", validate.describe("a\nb\0"))
    assert.equal(("'%s...' (string)"):format(("x"):rep(60)), validate.describe(("x"):rep(70)))
    assert.same({ "nil", "null", "a table", "NaN (number)" },
      { validate.describe(nil), validate.describe(seriatim.null), validate.describe({}), validate.describe(NAN) })
  end)
end)
