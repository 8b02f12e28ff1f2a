# frozen_string_literal: true

require "json"
require "net/http"
require "seriatim"

# A queue behind a web application that may be restarted at any moment: each request is sent until it is answered.
class WebQueue
  # Nobody knows what became of the request, or the application refuses it for now.
  class Failed < StandardError; end

  BROKEN = [SystemCallError, IOError, Timeout::Error, Net::ProtocolError].freeze

  # As Seriatim::Delivery; its queue is a WebQueue.
  Delivery = Struct.new(:queue, :id, :fence, :payloads, :token) do
    def ack = queue.report("ack", token)
    def release = queue.report("release", token)
  end

  def initialize(url, name)
    @url = URI("#{url}/api/v1/consume/")
    @name = name
  end

  # @return [Delivery, nil]
  # @raise [Failed] the application restarts, or has been restarted meanwhile
  def pop(wait:, ttr:, max:)
    answer = post("pop", queues: [@name], wait: wait, ttr: ttr, max: max)
    return if answer.code == "204"
    raise Failed, "pop: #{answer.code} #{answer.body}" unless answer.code == "200"

    Delivery.new(self, *JSON.parse(answer.body).values_at("id", "fence", "payloads", "token"))
  rescue *BROKEN => e
    raise Failed, "pop: #{e.message}"
  end

  # @raise [Seriatim::Stale] the answer is 409
  # @raise [Failed] it is 409, and a connection broke before: the report may have been accepted then
  def report(kind, token)
    sent = false
    begin
      answer = post(kind, token: token)
      refuse(sent) if answer.code == "409"
      raise EOFError, "#{kind}: #{answer.code} #{answer.body}" unless answer.code == "200"
    rescue *BROKEN => e
      sent ||= !e.is_a?(Errno::ECONNREFUSED)
      sleep 0.02
      retry
    end
  end

  private

  def refuse(sent)
    raise sent ? Failed.new("409 behind a broken connection") : Seriatim::Stale.new("409")
  end

  def post(kind, **body)
    Net::HTTP.start(@url.host, @url.port, open_timeout: 5, read_timeout: 10, max_retries: 0) do |http|
      http.post("#{@url.path}#{kind}", JSON.generate(body), "Content-Type" => "application/json")
    end
  end
end
