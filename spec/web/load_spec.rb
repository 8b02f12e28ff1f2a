# frozen_string_literal: true

require_relative "spec_helper"

# A Redis with queues of many ids in which nobody works, and the command `web` of one language. IDS: how many ids; script/soak takes a million.
class FullHouse
  IDS = Integer(ENV.fetch("IDS", 20_000))

  attr_reader :redis, :mount

  def initialize(command)
    @redis = RedisServer.new
    @mount = command.new(@redis)
  end

  def close = [@mount, @redis].each { |part| part.respond_to?(:remove) ? part.remove : part.close }
  def site = @mount.site

  # A queue of this name with `count` ids, all of which are due in an hour.
  def fill(name, count = IDS)
    Seriatim.redis = @redis.url
    worker = Application.worker(name)
    count.times.each_slice(1000) { |some| worker.perform_async(some.map { |number| { id: number, payload: number, delay: 3600 } }) }
    name
  end

  def act(name, action, body = {}) = site.post(Site.worker(name, action), body, seconds: 900)

  # As the page asks, slice after slice, until nothing is left or the block, given each answer, says false. The last answer.
  def in_slices(name, action)
    cursor = nil
    loop do
      answer = act(name, action, { slice: true, cursor: cursor })
      return answer unless answer.status == 200 && yield(answer.json) && answer.json["more"]

      cursor = answer.json["cursor"]
    end
  end

  # How many of its ids are delayed still; nil while the dashboard has no answer for the queue.
  def delayed(name) = site.get("/api/web/dashboard").json.fetch("queues", []).find { |queue| queue["name"] == name }&.fetch("delayed")
end

# The words of these examples. `command`: the mount that they are about.
module LoadWords
  def house = @house
  def clock = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  def say(text) = RSpec.configuration.reporter.message("#{FullHouse::IDS} ids: #{text}")

  # What stays when nothing is under way any more. A thread of the host that has not found the queue yet has no answer; on a busy
  # machine, and after a restart of Redis, it finds it late.
  def still_delayed(name)
    before = nil
    live = -> { house.delayed(name).tap { sleep 1 } }
    120.times do
      now = live.call or next
      now == before ? (return now) : before = now
    end
    raise "#{name} does not stop"
  end
end

RSpec.shared_examples "actions of a client" do
  include LoadWords

  before(:all) { @house = FullHouse.new(self.class.metadata.fetch(:command)) }
  after(:all) { @house&.close }

  it "R-WEB-15: end when the client closes its connection" do
    count = [FullHouse::IDS, 40_000].max # the connection is closed long before the action has ended on all of them, on a busy machine, too
    left = 0
    5.times do |attempt| # a busy machine may not close the connection in time
      left = left_of("Left #{attempt}", count)
      break if left.positive?
    end
    say("#{left} of #{count} are left after the client has closed its connection")
    expect(left).to be_between(1, count - 1)
  end

  # @return [Integer] how many of the ids are still delayed when the client that made them all due has gone
  def left_of(queue, count)
    name = house.fill(queue, count)
    body = "{}"
    head = "POST #{house.site.prefix}#{Site.worker(name, "perform_all_jobs_now")} HTTP/1.1\r\nHost: #{house.site.host}:#{house.site.port}\r\n"
    fields = { **Site::CHANGE, "Content-Length" => body.bytesize }.map { |field, value| "#{field}: #{value}\r\n" }.join
    Socket.tcp(house.site.host, house.site.port) do |io|
      io.write("#{head}#{fields}\r\n#{body}")
      sleep 0.01 until house.delayed(name)&.<(count)
    end
    still_delayed(name)
  end
end

Mounts::COMMANDS.each do |language, command|
  RSpec.describe "actions on a whole queue, seriatim web of #{language}", command: command, limit: 3600 do
    include_examples "actions of a client"

    # How many seconds each path takes while a thread runs, asked again and again: {path => [seconds]}
    def answers_during(threads, name)
      paths = ["/", "/livez", "/readyz", "/metrics", "/api/web/dashboard", Site.queue(name), Site.queue(name, "records?part=waiting")]
      taken = paths.to_h { |path| [path, []] }
      statuses = paths.to_h { |path| [path, []] }
      paths.cycle do |path|
        begun = clock
        status = house.site.get(path).status
        break unless threads.any?(&:alive?)

        statuses[path] << status
        taken[path] << (clock - begun)
      end
      # On a busy machine answers may take longer than the dashboard waits for Redis, but not all of a path.
      expect(statuses.values.flatten - [200, 503]).to eq([])
      expect(statuses.select { |_, all| all.include?(200) }.keys).to eq(paths)
      say(taken.map { |path, all| format("%s %d times, median %.3f s, at most %.3f s", path, all.size, all.sort[all.size / 2], all.max) }.join("; "))
      taken
    end

    it "R-WEB-13: leave pages, probes and metrics their answers" do
      name = house.fill("Whole")
      Array.new(8) { Thread.new { house.site.get("/metrics") } }.each(&:join) # the first request of a process waits until all keys of Redis were searched for queues
      begun = clock
      threads = Array.new(6) { Thread.new { house.act(name, "perform_all_jobs_now").then { |answer| answer.status == 200 ? answer.json["count"] : 0 } } }
      taken = answers_during(threads, name).values.flatten.sort
      lasted = clock - begun
      expect(threads.sum(&:value)).to be >= FullHouse::IDS
      # Without a thread for reads they would wait for the actions, all of them.
      expect(taken[taken.size / 2]).to be < lasted / 6
      expect([taken[taken.size * 9 / 10], taken.last]).to match([be < 0.5, be < 3]) if ENV["SOAK"]
    end

    it "R-WEB-14: show how far they are, and stop when nobody asks for more" do
      name = house.fill("Slices")
      totals = []
      others = []
      other = Thread.new { house.in_slices(name, "perform_all_jobs_now") { |answer| others << answer["total"] } }
      stopped = house.in_slices(name, "perform_all_jobs_now") { |answer| (totals << answer["total"]).size < 3 }.json
      expect([totals, totals.last]).to eq([totals.sort, stopped["total"]])
      other.value
      expect([others.last + totals.last, still_delayed(name)]).to eq([FullHouse::IDS, 0])
    end

    { "stops" => [:STOP, :CONT], "dies" => [:KILL, nil] }.each do |fate, (signal, back)|
      it "R-WEB-16: tell what was done when Redis #{fate} in the middle, and do nothing later" do
        name = house.fill("Redis #{fate}")
        done = 0
        begun = nil
        answer = house.in_slices(name, "perform_all_jobs_now") do |slice|
          done = slice["total"]
          next true if begun

          back ? Process.kill(signal, house.redis.pid) : house.redis.stop(signal)
          begun = clock
        end
        told = answer.json
        expect([answer.status, clock - begun]).to match([503, be < 12])
        expect(told.keys).to include("done", "unknown", "error")
        back ? Process.kill(back, house.redis.pid) : house.redis.start
        left = still_delayed(name)
        done += told["done"]
        expect(FullHouse::IDS - left).to be_between(done, done + (told["unknown"] ? 1000 : 0))
      ensure
        house.redis.pid ? Process.kill(:CONT, house.redis.pid) : house.redis.start
      end
    end
  end
end

Mounts::ALL.except("seriatim web").each do |name, mount|
  RSpec.describe "actions on a whole queue, #{name}", command: mount, limit: 3600 do
    include_examples "actions of a client"
  end
end
