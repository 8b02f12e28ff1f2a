# frozen_string_literal: true

require_relative "spec_helper"
require "socket"
require "seriatim/web/stand_alone"

# A server with three places, on whose connections nothing expires while the example runs.
RSpec.describe "the connections of seriatim web", limit: 60 do
  let(:listener) { TCPServer.new("127.0.0.1", 0) }
  let(:opened) { [] }

  around do |example|
    example.run
  ensure
    opened.each(&:close)
  end

  before do
    web = Seriatim::Web
    stub_const("#{web.module_eval { const_get(:Exchange) }}::IDLE", 3600)
    stub_const("#{web.module_eval { const_get(:Exchange) }}::SECONDS", 3600)
    @server = web.module_eval { const_get(:StandAlone) }.new(listener, ->(env) { [200, { "content-length" => "0", "x-path" => env["PATH_INFO"] }, []] }, connections: 3).start
  end

  after { @server.stop }

  def connect = TCPSocket.new("127.0.0.1", listener.addr[1]).tap { |io| opened << io }

  # The path that the answer names; nil: the connection has ended.
  def answer(io)
    head = +""
    head << io.readpartial(4096) until head.end_with?("\r\n\r\n")
    head[/x-path: (\S+)/, 1]
  rescue EOFError, Errno::ECONNRESET
    nil
  end

  def ask(io, path)
    io.write("GET #{path} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer(io)
  rescue Errno::EPIPE
    nil
  end

  it "D9 give way, the one that has been idle for longest first, to a new one" do
    idle = %w[/a /b /c].map { |path| connect.tap { |io| expect(ask(io, path)).to eq(path) } }
    expect(ask(idle[0], "/again")).to eq("/again")
    expect(ask(connect, "/new")).to eq("/new")
    expect(answer(idle[1])).to be_nil
    expect([ask(idle[0], "/kept"), ask(idle[2], "/kept")]).to eq(%w[/kept /kept])
  end

  it "D9 keep one whose request is on its way, while another is idle" do
    slow = connect
    slow.write("GET /slow HTTP/1.1\r\n")
    idle = %w[/a /b].map { |path| connect.tap { |io| expect(ask(io, path)).to eq(path) } }
    expect(ask(connect, "/new")).to eq("/new")
    expect(answer(idle[0])).to be_nil
    slow.write("Host: localhost\r\n\r\n")
    expect(answer(slow)).to eq("/slow")
    expect(ask(idle[1], "/kept")).to eq("/kept")
  end
end
