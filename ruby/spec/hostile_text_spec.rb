# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

# Ids, names of queues and errors come from elsewhere: whatever they hold, a terminal and a log show it as text of one line.
RSpec.describe "hostile text" do
  ID = "a\nb\e[31m\u009B1m\u202E\a\x7F\t\r"
  SHOWN = '\u001b[31m\u009b1m\u202e\u0007\u007f'
  CONTROL = /[\x00-\x09\x0B-\x1F\x7F-\u009F\u200B-\u200F\u2028-\u202E\u2060-\u206F]/

  def seriatim(*arguments, code: 0)
    output, status = Command.run(*arguments)
    output.force_encoding(Encoding::UTF_8)
    expect([arguments.first, output[CONTROL], status]).to eq([arguments.first, nil, code])
    output
  end

  before do
    @queue = "Q#{ID}"
    worker = worker(@queue, max_retry_count: 0) { raise "\e]0;pwn\a#{ID}" }
    server = serve(worker)
    worker.perform_async([{ id: ID, payload: ID }])
    eventually { worker.metrics[:morgue_length] == 1 }
    server.stop
  end

  it "moves no cursor and ends no row, in any verb" do
    expect(seriatim("dead", "list", @queue).lines.size).to eq(2)
    expect(seriatim("dead", "list", @queue)).to include(SHOWN).and match(/ 1  +\\u001b\]0;pwn\\u0007a$/)
    expect(seriatim("push", @queue, "#{ID}2")).to eq("added 1, folded 0, refused 0\n")
    expect(seriatim("stats").lines.size).to eq(2)
    expect(seriatim("explain", @queue, "#{ID}2").lines.size).to eq(1)
    expect(seriatim("pause", @queue)).to eq("paused 5 shards\n")
    expect(seriatim("pause", @queue, "#{ID}2")).to eq("parked 1\n")
    expect(seriatim("resume", @queue, ID, code: 1)).to match(/\Athe id ".*" is not parked\n\z/)
    expect(seriatim("check")).to match(/\AQa\\u000ab.*: \d+ records, 0 findings\n\z/)
    REDIS.call("SET", "seriatim:#{ID}", "1")
    expect(seriatim("check", code: 1).lines.first).to match(/\Anamespace .*\\u/)
    expect(seriatim("dead", "retry", @queue, ID)).to eq("queued up 1\n")
    expect(seriatim("dead", "delete", @queue, "--all")).to eq("deleted 0\n")
  end

  it "stays the same in JSON" do
    expect(JSON.parse(seriatim("dead", "list", @queue, "--json")).first).to include("id" => ID, "error" => start_with("\e]0;pwn\a#{ID}"))
    expect(JSON.parse(seriatim("stats", "--json"))["queues"].first["name"]).to eq(@queue)
    expect(JSON.parse(seriatim("explain", @queue, ID, "--json"))["dead"]).to include("id" => ID, "payloads_count" => 1)
    expect(JSON.parse(seriatim("check", "--json"))["queues"].first["name"]).to eq(@queue)
  end

  it "is shown in what is refused" do
    expect(seriatim("stats", "#{ID}none", code: 2)).to include("unknown queue").and include('u202e')
    expect(seriatim(ID, code: 2)).to include("unknown command a | b#{SHOWN}")
    expect(seriatim("-r", ID, code: 2)).to include("no such file")
    expect(seriatim("-C", ID, code: 2)).to include("-C a | b")
  end

  it "is one line of a log, also behind a Logger of the application's own" do
    log = Seriatim.const_get(:Log)
    event = log::Event.new("fail", "\e]0;pwn\a#{ID}", { q: @queue, id: ID })
    lines = { "text" => log::Line.new.call("WARN", Time.now, nil, event), "json" => log::Json.new.call("WARN", Time.now, nil, event), "own" => "#{event}\n" }
    lines.each { |format, line| expect([format, line[CONTROL], line.count("\n")]).to eq([format, nil, 1]) }
    expect(JSON.parse(lines["json"])).to include("msg" => "\e]0;pwn\a#{ID}", "id" => ID)
  end
end
