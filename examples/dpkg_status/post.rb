# frozen_string_literal: true

# post.rb - lines to nginx by HTTP, over one connection; what failed is posted again.
require "json"
require "net/http"
require "socket"
require_relative "journal"

class Post
  ATTEMPTS = 200
  PAUSE = 0.05 # seconds between them
  FAILURES = [SystemCallError, IOError, Timeout::Error, Net::ProtocolError].freeze

  # @param path [String] of nginx's Unix socket
  def initialize(path)
    @path = path
  end

  # @return [Integer] how many were folded
  def push(lines, attempts = ATTEMPTS)
    Integer(answer(JSON.generate(lines)))
  rescue *FAILURES
    raise if (attempts -= 1).zero?

    again(lines)
    retry
  end

  private

  # They may have been pushed, and then come twice.
  def again(lines)
    Journal.write("posted again", numbers: lines.map { |line| line["number"] }) unless lines.empty?
    @connection&.close
    @connection = nil
    sleep PAUSE
  end

  def answer(body)
    @connection ||= Net::BufferedIO.new(UNIXSocket.new(@path))
    request = Net::HTTP::Post.new("/lines", "Host" => "localhost", "Content-Type" => "application/json")
    request.body = body
    request.exec(@connection, "1.1", request.path)
    response = Net::HTTPResponse.read_new(@connection)
    response.reading_body(@connection, true) { response.body }
    response.is_a?(Net::HTTPOK) ? response.body : raise(Net::ProtocolError, "#{response.code} #{response.body}")
  end
end
