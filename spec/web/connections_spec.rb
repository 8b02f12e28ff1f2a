# frozen_string_literal: true

require "zlib"
require_relative "spec_helper"
require_relative "kit/quiet_house"

# What the wire carries: files of the dashboard come compressed on each mount, and the servers of `seriatim web` keep a connection open.
# Each with the seconds after which it closes a connection that waits for its next request, and how many may be opened at once: Lua's web
# closes the one that has the least time left.
OWN_SERVERS = { "seriatim web" => [15, 50], "Python's web" => [15, 50], "Lua's web" => [60, 1] }.freeze

House.consuming.each_key do |name|
  RSpec.describe "a connection, #{name}", mount: name do
    let(:live) { QuietHouse.live }

    def mount = QuietHouse.mount(self.class.metadata.fetch(:mount))
    def files = site.get("/").body.scan(%r{(?:src|href)="(assets/[^"]+)"}).map { |file,| "/#{file}" }

    # Lengths and what the header says, of a GET and a HEAD.
    def file(path, accepted)
      headers = { "Accept-Encoding" => accepted }
      answers = [site.ask("GET", path, headers: headers), site.ask("HEAD", path, headers: headers)]
      expect(answers.map(&:status)).to eq([200, 200])
      expect(answers.map { |answer| answer["vary"] }).to eq(["Accept-Encoding"] * 2)
      expect(answers.map { |answer| answer["content-encoding"] }.uniq.size).to eq(1)
      answers.first
    end

    it "brings the files compressed, if the browser takes that" do
      expect(files.size).to be > 3
      files.each do |path|
        plain = file(path, nil)
        packed = file(path, "gzip, deflate, br")
        expect([path, plain["content-encoding"], packed["content-encoding"]]).to eq([path, nil, "gzip"])
        expect(Zlib.gunzip(packed.body).b == plain.body.b).to be(true)
        expect(packed.body.bytesize).to be < plain.body.bytesize
        expect(file(path, "br, gzip;q=0").body).to eq(plain.body)
      end
    end

    next unless OWN_SERVERS.key?(name)

    def connect = Socket.tcp(site.host, site.port, connect_timeout: 60)

    # Reads one answer, and no byte of the next one.
    # @return [Array(Integer, String)] status, body
    def read_answer(io)
      head = +""
      head << (io.wait_readable(60) && io.readpartial(1)) until head.end_with?("\r\n\r\n")
      body = io.read(head[/^content-length: *(\d+)/i, 1].to_i)
      [head[%r{\AHTTP/1.1 (\d+)}, 1].to_i, body]
    end

    def ask(io, method, path, body = nil, **fields)
      lines = { "Host" => "#{site.host}:#{site.port}", "Content-Length" => body&.bytesize, **fields.transform_keys { |field| field.to_s.tr("_", "-") } }.compact
      io.write("#{method} #{site.prefix}/#{path} HTTP/1.1\r\n#{lines.map { |field, value| "#{field}: #{value}\r\n" }.join}\r\n#{body}")
      read_answer(io)
    end

    def over?(io) = io.wait_readable(60) && io.read_nonblock(1, exception: false).nil?

    it "serves requests one after another" do
      io = connect
      expect(%w[livez api/v1/stats api/none readyz].map { |path| ask(io, "GET", path).first }).to eq([200, 200, 404, 200])
      expect(ask(io, "POST", "api/web/#{QuietHouse::NAME}/pause", "[]", Content_Type: "application/json").first).to eq(403)
      io.close
      io = connect
      expect([{}, { Connection: "close" }].map { |fields| ask(io, "GET", "livez", **fields).first }).to eq([200, 200])
      expect(over?(io)).to be(true)
    ensure
      io&.close
    end

    it "ends after a request that it cannot read, and after one of HTTP/1.0" do
      { "GET #{site.prefix}/livez HTTP/1.0\r\n\r\n" => 200, "POST #{site.prefix}/livez HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" => 501 }.each do |bytes, status|
        io = connect
        expect(ask(io, "GET", "livez").first).to eq(200)
        io.write(bytes)
        expect(read_answer(io).first).to eq(status)
        expect(over?(io)).to be(true)
      ensure
        io&.close
      end
    end

    # Opens more connections than the server keeps (256, and 1,000 for pops), some at once, so that a slow machine does not need the time
    # after which they expire. Was one closed when its request was sent less than that time ago?
    def gave_way?
      seconds, at_once = OWN_SERVERS.fetch(self.class.metadata.fetch(:mount))
      sent = {}
      (1300 / at_once).times do
        opened = Array.new(at_once) { connect.tap { |io| sent[io] = send_request(io) } }
        opened.each { |io| expect(read_answer(io).first).to eq(200) }
      end
      over, = IO.select(sent.keys, nil, nil, 120) # all answers were read, so what can be read is the end
      over&.any? { |io| clock - sent[io] < seconds }
    ensure
      sent.each_key(&:close)
    end

    # When it was sent.
    def send_request(io)
      clock.tap { io.write("GET #{site.prefix}/livez HTTP/1.1\r\nHost: #{site.host}:#{site.port}\r\n\r\n") }
    end

    def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)

    it "gives way, when it waits for a request, to a new one, and does not only expire", limit: 600 do
      expect((1..5).any? { gave_way? }).to be(true)
      Array.new(10) { site.get("/readyz").status }.then { |answers| expect(answers).to eq([200] * 10) }
    end
  end
end
