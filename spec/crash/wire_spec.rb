# frozen_string_literal: true

require_relative "kit/all_languages"

RSpec.describe "The way to Redis" do
  include AllLanguages

  def number(number) = format("%06d", number)

  # One push of one job, its number the payload.
  def push_one(agent, sent) = agent.push("Cut", { id: id_of(agent.language, sent), payload: number(sent) })

  def id_of(language, sent) = "#{language}#{sent % 10}"

  LIST = { Cut: { shards_count: 1, fold: "list" } }.freeze

  # Bytes of a push both ways. Two pushes, so that the first finds the connection or loses it.
  def bytes_of_a_push(proxy, agent, anew)
    before = nil
    (1..2).each do |sent|
      proxy.drop if anew
      before = proxy.passed.dup
      push_one(agent, sent)
    end
    proxy.passed.to_h { |way, bytes| [way, bytes - before[way]] }
  end

  # @return [Integer] how many pushes
  def cut_everywhere(proxy, agent, anew)
    sent = 2
    bytes_of_a_push(proxy, agent, anew).each do |way, size|
      (0..size).step(anew ? Figures.count(5, 1) : 1) do |at|
        proxy.drop if anew
        proxy.cut_next(way => at)
        push_one(agent, sent += 1)
        at < size ? expect(proxy).to(be_cut, "#{way} #{at} of #{size}") : proxy.mend
      end
    end
    sent
  end

  # Two connections that end without an answer are followed by a pause of some 40 ms, hence fewer of those.
  { "an open connection" => false, "a new connection" => true }.each do |name, anew|
    it "F4 a push on #{name}, cut at every byte both ways, is applied once, from every language" do
      proxies = AllLanguages::LANGUAGES.to_h { |language| [language, proxy()] }
      sent = with_agents(proxies.transform_values(&:url), **LIST) { |language, agent| cut_everywhere(proxies[language], agent, anew) }
      note("F4", "cuts of a push on #{name}", sent.values.sum { |pushes| pushes - 2 })

      sent.each do |language, pushes|
        lists = waiting("Cut", (0..9).map { |at| id_of(language, at) }).values
        expect(lists.flatten.sort).to eq((1..pushes).map { |n| number(n) })
        expect(lists).to all(satisfy { |numbers| numbers == numbers.sort })
      end
    end
  end

  it "F4 pushes of 2,500 jobs, cut anywhere, are applied once" do
    random = kit.random
    cuts = Figures.count(3, 100)
    proxies = AllLanguages::LANGUAGES.to_h { |language| [language, proxy()] }
    with_agents(proxies.transform_values(&:url), Cut: { shards_count: 2, fold: "list" }) do |language, agent|
      proxy = proxies[language]
      cuts.times do |push|
        proxy.cut_next(random.rand < 0.8 ? { up: random.rand(150_000) } : { down: random.rand(300) })
        agent.push("Cut", *Array.new(2500) { |job| { id: "#{language}#{job % 50}", payload: (push * 2500) + job } })
      end
    end
    note("F4", "cuts of pushes of 2,500 jobs", cuts * 3)
    AllLanguages::LANGUAGES.each do |language|
      lists = waiting("Cut", (0...50).map { |id| "#{language}#{id}" }).values
      expect(lists.flatten.sort).to eq((0...(cuts * 2500)).to_a)
      expect(lists).to all(satisfy { |numbers| numbers == numbers.sort })
    end
  end

  it "F4 a push that Redis answers late, by CLIENT PAUSE or DEBUG SLEEP, is applied once" do
    seconds = Figures.count(1, 17) # after 15 s a client takes the connection for dead and asks again over a new one
    with_redis("--enable-debug-command", "yes")
    with_agents(**LIST) { |_, agent| push_one(agent, 0) }
    before = Journal.now
    redis.call("CLIENT", "PAUSE", (seconds * 1000).to_i, "WRITE")
    answered = at_once(agent_of) { |_, agent| push_one(agent, 1) && Journal.now }
    expect(answered.values).to all(be >= before + (seconds * 0.9))
    sleeper = Thread.new { redis.call("DEBUG", "SLEEP", seconds) }
    pause(0.1)
    at_once(agent_of) { |_, agent| push_one(agent, 2) }
    sleeper.join

    AllLanguages::LANGUAGES.each do |language|
      (0..2).each { |sent| expect(waiting("Cut", [id_of(language, sent)]).values).to eq([[number(sent)]]) }
    end
  end

  # The proxy passes some 60,000 bytes a second on a quiet machine. On a busy one a heartbeat waits long behind other bytes.
  it "F17 one byte at a time, both ways: servers and producers do not notice" do
    slow = proxy(Proxy::Rule.new(segment: 1))
    under_load(Figures.count(1, 20), url: slow.url, lease: 100, pause: 0.15) { pause(0.1) }
    note("F17", "bytes passed one by one", slow.passed.values.sum)

    expect(nothing_is_lost.repeated).to eq([])
  end

  # A connection that owes an answer for 15 s is dead. So is one that owes none, when its answer to a PING does not come.
  # The lease outlives that: a shorter one would rightly be another's before the settles arrive.
  it "F16 half-open connections are replaced within 25 s, those that only listen as well" do
    road = proxy
    took = nil
    under_load(nil, url: road.url, lease: 100, pause: 0.02) do
      3.times { (took = seconds_to_replace(road)) < 25 and break } # a machine may be busy with other things
    end
    expect(took).to be < 25
    note("F16", "seconds until every half-open connection was replaced", took.round(1))

    expect(nothing_is_lost.repeated).to eq([])
  end

  def seconds_to_replace(road)
    last = road.newest
    road.swallow
    seconds_of { kit.eventually(90) { (road.oldest || 0) > last } }
  end

  it "F18 an answer that comes after its connection was given up is nobody's" do
    roads = AllLanguages::LANGUAGES.to_h { |language| [language, proxy()] }
    answers = with_agents(roads.transform_values(&:url), **LIST) do |language, agent|
      push_many(agent, 0, 1)
      roads[language].hold_back(down: 16)
      [push_many(agent, 1, 2), pause(2), push_many(agent, 2, 3), push_many(agent, 3, 4)].compact
    end

    expect(answers.values).to all(eq([2, 3, 4]))
  end

  # @return [Integer] how many were added
  def push_many(agent, turn, count)
    agent.push("Cut", *Array.new(count) { |at| { id: "#{agent.language}-#{turn}-#{at}", payload: turn } })["added"]
  end

  MEGABYTE = 1024 * 1024

  it "F27 payloads up to a megabyte arrive whole; a larger one is refused before a byte is sent, in every language" do
    roads = AllLanguages::LANGUAGES.to_h { |language| [language, proxy()] }
    sizes = [0, 1, 16_383, 16_384, 16_385, MEGABYTE - 3, MEGABYTE - 2] # and the quotes of JSON
    with_agents(roads.transform_values(&:url), **LIST) do |language, agent|
      sizes.each { |size| agent.push("Cut", { id: "#{language}#{size}", payload: "x" * size }) }
      before = roads[language].passed.dup
      [MEGABYTE - 1, 2 * MEGABYTE].each do |size|
        expect { agent.push("Cut", { id: "larger", payload: "x" * size }) }
          .to raise_error(AgentProcess::Refused, /bytes long; at most 1048576/)
      end
      expect(roads[language].passed).to eq(before)
    end

    ids = AllLanguages::LANGUAGES.product(sizes).map(&:join)
    expect(waiting("Cut", ids).transform_values { |payloads| payloads.map(&:size) })
      .to eq(AllLanguages::LANGUAGES.product(sizes).to_h { |language, size| ["#{language}#{size}", [size]] })
  end
end
