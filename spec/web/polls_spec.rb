# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/quiet_house"

# Pops that wait at the same time: POLLS of them (60; 1,000 with SOAK=1) in what lets 1,000 wait. While they do, other requests are
# answered; each job that is then pushed goes to one of them, and those whose time ends are told that nothing was due.
module WaitingPops
  POLLS = ENV["SOAK"] ? 1000 : 60
  MOUNTS = House.consuming.except("Rack", "WSGI")
end

WaitingPops::MOUNTS.each_key do |name|
  RSpec.describe "many pops that wait, #{name}", mount: name do
    let(:live) { QuietHouse.live }
    let(:queue) { "Wanted from #{self.class.metadata[:mount]}" }

    def mount = QuietHouse.mount(self.class.metadata.fetch(:mount))

    def poll(wait)
      body = JSON.generate(queues: [queue], wait: wait)
      io = Socket.tcp(site.host, site.port)
      io.write("POST #{site.prefix}/api/v1/consume/pop HTTP/1.1\r\nHost: #{site.host}:#{site.port}\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: #{body.bytesize}\r\n\r\n#{body}")
      io
    end

    def connections = Integer(live.redis.call("INFO", "clients")[/connected_clients:(\d+)/, 1])
    def questions = live.redis.call("INFO", "commandstats")[/cmdstat_evalsha:calls=(\d+)/, 1].to_i

    # [status, the id that is delivered or the error] of each.
    def answers(polls)
      polls.map do |io|
        text = io.read
        [text[%r{\AHTTP/1\.\d (\d+)}, 1].to_i, text[/"(?:id|error)":"([^"]*)"/, 1]]
      end
    end

    # The last ones may be counted in another order than they were sent: any of them may be the one.
    def refuse_one_more(polls)
      polls << poll(60)
      live.until_true("one is refused") { polls.any? { |io| io.wait_readable(0) } }
    end

    it "R-HTTP-7 all wait, and each takes what comes for it" do
      live.use
      wanted = Application.worker(queue)
      wanted.perform_async([{ id: "not due", payload: 0, delay: 3600 }])
      before = [connections, questions]
      polls = []
      until polls.size == WaitingPops::POLLS
        Array.new(20) { polls << poll(60) }
        live.until_true("#{polls.size} wait") { questions >= before.last + (4 * polls.size) }
      end
      expect(site.get("/livez").status).to eq(200)
      refuse_one_more(polls) if ENV["SOAK"]
      expect(connections - before.first).to be <= 10 unless mount.is_a?(Mounts::Asgi)
      jobs = Array.new(WaitingPops::POLLS) { |number| { id: "job #{number}", payload: number } }
      wanted.perform_async(jobs)
      given, refused = answers(polls).partition { |status,| status == 200 }
      expect(refused).to eq([[503, "1000 pops wait already, as many as this mount lets wait (polls)"]] * (polls.size - WaitingPops::POLLS))
      expect(given.sort).to eq(jobs.map { |job| [200, job[:id]] }.sort)
      expect(answers(Array.new(10) { poll(0.3) }).uniq).to eq([[204, nil]])
    ensure
      polls&.each(&:close)
    end
  end
end
