# frozen_string_literal: true

require "zlib"
require_relative "spec_helper"
require_relative "kit/quiet_house"

# What the wire carries: files of the dashboard come compressed on each mount, and the servers of `seriatim web` keep a connection open.
OWN_SERVERS = ["seriatim web", "Python's web", "Lua's web"].freeze

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

    next unless OWN_SERVERS.include?(name)

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
  end
end
