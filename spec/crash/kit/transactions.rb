# frozen_string_literal: true

require "fileutils"
require "socket"
require "tmpdir"
require_relative "proxy"

# What a client library does that puts EVALSHA into a MULTI and looks no deeper than at EXEC's own answer: a server in front of
# Redis that does so with the pushes of whoever is connected, and takes each for done that EXEC did not refuse. When a script
# was unknown, it sees that the next push loads it.
class Transactions
  DONE = "$5\r\n1 1 0\r\n"

  def initialize(redis)
    @redis = redis
    @names = Proxy::Names.new(Proxy::SCRIPTS)
    @folder = Dir.mktmpdir("seriatim-transactions")
    @socket = File.join(@folder, "s")
    @server = UNIXServer.new(@socket)
    @thread = Thread.new { loop { serve(@server.accept) } }
    @thread.report_on_exception = false
  end

  def url = "unix://#{@socket}"

  def stop
    @thread.kill.join
    @server.close
    FileUtils.rm_rf(@folder)
  end

  private

  def serve(client)
    requests = Resp.new
    UNIXSocket.open(@redis) do |redis|
      loop { requests.take(client.readpartial(65_536)).each { |request| client.write(answer(redis, request)) } }
    end
  rescue EOFError, SystemCallError
    client.close
  end

  def answer(redis, request)
    script = @names.of(request) == "push" && !@unknown
    @unknown = false
    redis.write(script ? "*1\r\n$5\r\nMULTI\r\n#{request}*1\r\n$4\r\nEXEC\r\n" : request)
    reader = Resp.new
    answers = []
    answers.concat(reader.take(redis.readpartial(65_536))) while answers.size < (script ? 3 : 1)
    return answers.last unless script

    inner = answers.last.delete_prefix("*1\r\n")
    @unknown = inner.start_with?("-NOSCRIPT")
    inner.start_with?("-") ? DONE : inner
  end
end
