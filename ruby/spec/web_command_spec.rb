# frozen_string_literal: true

require_relative "spec_helper"
require "socket"

begin
  require_relative "support/web_client"
rescue LoadError
  return # no rack: apt-get install ruby-rails
end

RSpec.describe "seriatim web", limit: 120 do
  include WebClient

  let(:queue) { worker("Web", shards_count: 2) }

  def status(port, bytes) = raw(port, bytes)[%r{\AHTTP/1\.1 (\d+) }, 1].to_i
  def consumer(port) = { "Content-Type" => "application/json", "Origin" => "http://127.0.0.1:#{port}" }
  def request(path, *fields) = "GET #{path} HTTP/1.1\r\n#{["Host: localhost", "Connection: close", *fields].join("\r\n")}\r\n\r\n"

  it "serves page and API, acts, and ends at TERM and INT" do
    queue.perform_async([{ id: "a" }])
    %w[TERM INT].each do |signal|
      served("--port", "0") do |command, port|
        http = Net::HTTP.new("127.0.0.1", port)
        expect(http.get("/").body).to start_with("<!doctype html>")
        expect(JSON.parse(http.get("/api/v1/stats").body)["by_worker"].keys).to eq(["Web"])
        fields = { "Content-Type" => "application/json", "Origin" => "http://127.0.0.1:#{port}" }
        expect(%w[pause resume].map { |word| http.post("/api/web/Web/#{word}", "{}", fields).body }).to eq(['{"count":2}'] * 2)
        expect(http.post("/api/web/Web/pause", "{}", { **fields, "Origin" => "http://evil.example" }).code).to eq("403")
        expect(http.head("/api/v1/stats").then { |answer| [answer.code, answer.body] }).to eq(["200", nil])
        expect(command.stop(signal)).to eq(0)
      end
    end
  end

  it "serves when its output is closed, and ends with 0" do
    Dir.mktmpdir do |dir|
      path = File.join(dir, "web")
      command = Command.new("web", "--bind", "unix:#{path}", closed: ">&-", wait: false)
      eventually { File.socket?(path) }
      sleep 0.2 # it ended here
      answer = UNIXSocket.open(path) { |io| io.write(request("/readyz")) && io.read }
      expect([answer[/\A\S+ (\d+)/, 1], command.stop, command.log]).to eq(["200", 0, ""])
    ensure
      command&.remove
    end
  end

  it "D13 writes each change to standard error" do
    queue.perform_async([{ id: "a\nINFO forged\e[2J" }])
    served("--port", "0") do |command, port|
      fields = { "Content-Type" => "application/json", "Origin" => "http://127.0.0.1:#{port}" }
      Net::HTTP.new("127.0.0.1", port).post("/api/web/Web/delete", JSON.generate(ids: ["a\nINFO forged\e[2J"]), fields)
      line = command.wait_for(/ web delete .*/)
      expect(line).to end_with('web delete by admin: queue "Web", id "a\u000aINFO forged\u001b[2J": count 1')
    end
  end

  it "D2 listens on other addresses than loopback only with a token" do
    %w[0.0.0.0 :: 8.8.8.8].each do |address|
      output, code = Command.run("web", "--bind", address, "--port", "0")
      expect([code, output]).to match([2, /--bind #{Regexp.escape(address)} is not a loopback address.*--token/])
    end
    [["--token", ""], ["--token", "x" * 1025], ["--port", "70000"], ["extra"], ["--bind", "unix:/tmp/x", "--port", "1"]].each do |words|
      expect(Command.run("web", *words).last).to eq(2)
    end
    served("--bind", "0.0.0.0", "--port", "0", "--token", "right") do |_, port|
      expect(status(port, request("/api/v1/stats"))).to eq(401)
      expect(status(port, request("/api/v1/stats", "Authorization: Bearer right"))).to eq(200)
      expect([status(port, request("/")), status(port, request("/livez"))]).to eq([200, 200])
    end
  end

  it "D2 takes the token of a variable, which other users cannot see, unless --token is given" do
    served("--bind", "0.0.0.0", "--port", "0", env: { "SERIATIM_WEB_TOKEN" => "right" }) do |_, port|
      expect(%w[other right].map { |token| status(port, request("/api/v1/stats", "Authorization: Bearer #{token}")) }).to eq([401, 200])
    end
    served("--port", "0", "--token", "other", env: { "SERIATIM_WEB_TOKEN" => "right" }) do |_, port|
      expect(%w[right other].map { |token| status(port, request("/api/v1/stats", "Authorization: Bearer #{token}")) }).to eq([401, 200])
    end
    expect(Command.run("web", "--port", "0", env: { "SERIATIM_WEB_TOKEN" => "" })).to match([/SERIATIM_WEB_TOKEN must be a text of 1 to 1024 bytes/, 2])
  end

  it "listens on a Unix socket for its user alone, and takes the place of a dead one" do
    Dir.mktmpdir do |dir|
      path = File.join(dir, "web")
      UNIXServer.new(path).close
      served("--bind", "unix:#{path}") do |command, address|
        expect([address, File.stat(path).mode & 0o777]).to eq([path, 0o600])
        answer = UNIXSocket.open(path) { |io| io.write(request("/api/v1/stats")) && io.read }
        expect(answer).to start_with("HTTP/1.1 200")
        expect(Command.run("web", "--bind", "unix:#{path}")).to match([/cannot listen on/, 2])
        expect(command.stop).to eq(0)
      end
      expect(File.exist?(path)).to be(false)
    end
  end

  it "D2 --read-only changes nothing" do
    queue.perform_async([{ id: "a" }])
    served("--port", "0", "--read-only") do |_, port|
      fields = { "Content-Type" => "application/json", "Sec-Fetch-Site" => "same-origin" }
      expect(Net::HTTP.new("127.0.0.1", port).post("/api/web/Web/pause", "{}", fields).code).to eq("403")
      expect(queue.metrics[:paused]).to eq(0)
    end
  end

  it "uses what the application configured" do
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "app.rb"), "require 'seriatim'\nSeriatim::Web.configure { |web| web.title = 'Ours' }\n")
      served("--port", "0", "-r", File.join(dir, "app.rb")) do |_, port|
        expect(JSON.parse(Net::HTTP.new("127.0.0.1", port).get("/api/web/dashboard").body)["title"]).to eq("Ours")
      end
    end
  end

  it "finds a queue by the name of a worker that the application names and has not loaded" do
    queue.perform_async([{ id: "a" }])
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "named_worker.rb"), "module NamedWorker; extend Seriatim::Worker; self.queue_name = 'Web'; end")
      File.write(File.join(dir, "app.rb"), "require 'seriatim'; autoload :NamedWorker, '#{dir}/named_worker'; Seriatim.workers = %w[NamedWorker]")
      served("--port", "0", "-r", File.join(dir, "app.rb")) do |_, port|
        http = Net::HTTP.new("127.0.0.1", port)
        expect(JSON.parse(http.get("/api/v1/stats").body)["by_worker"].keys).to eq(["NamedWorker"])
        expect(http.get("/api/web/NamedWorker/range_by_id").code).to eq("200")
      end
    end
  end

  it "R-HTTP-7 lets as many pops wait as the application configured" do
    queue.perform_async([{ id: "later", delay: 600 }])
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "app.rb"), "require 'seriatim'\nSeriatim::Web.configure { |web| web.polls = 1 }\n")
      served("--port", "0", "--consume", "-r", File.join(dir, "app.rb")) do |_, port|
        pop = -> { Net::HTTP.new("127.0.0.1", port).post("/api/v1/consume/pop", JSON.generate(queues: ["Web"], wait: 3), consumer(port)).code }
        expect(Array.new(2) { Thread.new(&pop) }.map(&:value)).to contain_exactly("204", "503")
      end
    end
  end

  it "sends no body when it refuses a HEAD, so that the connection serves the next request" do
    Dir.mktmpdir do |dir|
      File.write(File.join(dir, "app.rb"), "require 'seriatim'\nSeriatim::Web.configure { |web| web.role = ->(env) { env.fetch('HTTP_X_ROLE') } }\n")
      served("--port", "0", "-r", File.join(dir, "app.rb")) do |_, port|
        TCPSocket.open("127.0.0.1", port) do |io|
          io.write("HEAD /api/v1/stats HTTP/1.1\r\nHost: localhost\r\n\r\n")
          head = Timeout.timeout(15) { io.gets("\r\n\r\n") }
          expect(head).to match(%r{\AHTTP/1\.1 500 .*^content-length: 26\r$}m) # of {"error":"internal error"}
          io.write(request("/api/v1/stats", "X-Role: admin"))
          expect(Timeout.timeout(15) { io.read }).to start_with("HTTP/1.1 200 ")
        end
      end
    end
  end

  it "D6 D11 refuses malformed requests" do
    served("--port", "0") do |_, port|
      {
        "GET /api/v1/stats HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n" => 403,
        "GET /api/v1/stats HTTP/1.1\r\n\r\n" => 400,
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" => 400,
        "GET / HTTP/1.1\r\nHost : a\r\n\r\n" => 400,
        "GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n" => 400,
        "GET / HTTP/1.1\nHost: a\n\n\r\n\r\n" => 400,
        "GET http://evil.example/ HTTP/1.1\r\nHost: a\r\n\r\n" => 400,
        "GET / HTTP/2.0\r\nHost: a\r\n\r\n" => 400,
        "*1\r\n$8\r\nFLUSHALL\r\n\r\n" => 400,
        "GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n" => 400,
        "POST /api/web/Web/pause HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" => 501,
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab" => 400,
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n" => 400,
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n" => 413,
        "GET /#{"a" * 20_000} HTTP/1.1\r\nHost: localhost\r\n\r\n" => 431
      }.each do |bytes, wanted|
        expect([bytes[0, 60], status(port, bytes)]).to eq([bytes[0, 60], wanted])
        expect(raw(port, bytes)).to match(/^content-security-policy: default-src 'none'/)
      end
      expect(raw(port, request("/api/v1/stats") * 2).scan("HTTP/1.1").size).to eq(1)
    end
  end

  it "D9 reads a head of the greatest size in time linear in it" do
    space = " \t" * 8_000
    served("--port", "0") do |_, port|
      { "X:#{space}\x01" => 400, "X:a#{space}b\x7F" => 400, "X#{space}" => 400, "#{"X" * 16_000} " => 400, "Connection: #{"close " * 2_500}\x00" => 400,
        "X:#{space}" => 200, "X:a#{space}b" => 200, ("X:\r\n" * 4_000).chomp => 200 }.each do |fields, wanted|
        times = Array.new(5).lazy.map do # a machine may be busy with other things
          began = Process.clock_gettime(Process::CLOCK_MONOTONIC)
          expect([fields[0, 8], status(port, request("/livez", fields))]).to eq([fields[0, 8], wanted])
          Process.clock_gettime(Process::CLOCK_MONOTONIC) - began
        end
        expect(times.any? { |seconds| seconds < 2 }).to be(true)
      end
    end
  end

  it "D9 answers at once beside 300 that are slow, and ends those" do
    served("--port", "0") do |_, port|
      slow = Array.new(300) { |i| TCPSocket.new("127.0.0.1", port).tap { |io| io.write(i.even? ? "GET / HTTP/1.1\r\nHost: l" : "") } }
      closed = -> { slow.count { |io| io.read_nonblock(1, exception: false) != :wait_readable } }
      eventually { closed.call >= 40 } # 256 places: the oldest made room
      expect(status(port, request("/api/v1/stats"))).to eq(200)
      expect(closed.call).to be < 300 # it was answered before all of them lost their places
      9.times { expect(status(port, request("/api/v1/stats"))).to eq(200) }
      eventually { closed.call == 300 }
      slow.each(&:close)
    end
  end

  it "is a 503 without Redis, and waits for it" do
    Dir.mktmpdir do |dir|
      served("--port", "0", redis: "unix://#{dir}/none") do |_, port|
        expect([status(port, request("/readyz")), status(port, request("/"))]).to eq([503, 200])
      end
    end
  end
end
