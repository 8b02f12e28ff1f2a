# frozen_string_literal: true

require_relative "spec_helper"
require_relative "kit/quiet_house"

# What programs ask of the routes for consumers that they should not, on each mount that serves them: it is refused or changes
# nothing, and no job is lost with a client that vanishes.
House.consuming.each_key do |name|
  RSpec.describe "hostile consumers, #{name}", mount: name do
    let(:live) { QuietHouse.live }
    let(:queue) { "Pulled from #{self.class.metadata[:mount]}" }
    let(:other) { "#{queue} too" }
    reports = { "ack" => {}, "checkpoint" => { count: 1 }, "extend" => { seconds: 60 }, "fail" => { error: "x" }, "release" => {}, "snooze" => { seconds: 0 } }

    def mount = QuietHouse.mount(self.class.metadata.fetch(:mount))

    before do
      live.use
      [queue, other].each { |name| Application.worker(name).perform_async([{ id: "not due", payload: 0, delay: 3600 }]) }
    end

    def push(id, to: queue) = Application.worker(to).perform_async([{ id: id, payload: 1 }])

    # `body` is a Hash or the text to send.
    def consume(route, body, method: "POST", **headers)
      text = body.is_a?(Hash) ? JSON.generate(body) : body
      site.ask(method, "/api/v1/consume/#{route}", headers: { "Content-Type" => "application/json", **headers.transform_keys(&:to_s) }, body: text)
    end

    def pop(from: queue, **options) = consume("pop", { queues: [from], wait: 0, **options })
    def token_of(from: queue) = pop(from: from).json.fetch("token")

    # Takes what is due, so that the next example finds nothing.
    def finish(id, deliveries)
      answer = nil
      live.until_true(-> { "#{id} again: #{answer&.body}" }) { (answer = pop(wait: 5)).status == 200 }
      expect(answer.json.slice("id", "deliveries")).to match("id" => id, "deliveries" => deliveries)
      expect(consume("ack", { token: answer.json["token"] }).status).to eq(200)
    end

    it "R-HTTP-2 are refused what another role may do, and other roles what consumers may", unless: Mounts::WITHOUT_ROLES.key?(name) do
      before = live.digest
      { "nobody" => 401, "viewer" => 403, "operator" => 403 }.each do |role, status|
        answers = CONSUMING_ROUTES.map { |route| site.ask(route[:method], path_of(route), headers: { **Site::CHANGE, "Cookie" => "role=#{role}" }, body: "{}").status }
        expect([role, answers.uniq]).to eq([role, [status]])
      end
      statuses = ROUTES.map { |route| [route[:pattern], site.ask(route[:method], path_of(route), headers: { **Site::CHANGE, "Cookie" => "role=consumer" }, body: "{}").status] }
      expect(statuses.reject { |_, status| status == 403 }).to eq(PROBES.map { |path| [path, 200] })
      expect(live.digest).to eq(before)
      expect(consume("pop", { queues: [queue], wait: 0 }, Cookie: "role=consumer").status).to eq(204)
    end

    # The token's bytes: version, fence, stamp, score, highest score, count, length of the queue's name, flags, queue, id.
    def forged(token, other_token)
      bytes, theirs = [token, other_token].map { |text| text.tr("-_", "+/").unpack1("m").b }
      name = theirs[38, theirs[35, 2].unpack1("n")]
      changed = [0, 1, 4, 8, 38, bytes.size - 1].map { |at| bytes.dup.tap { |copy| copy.setbyte(at, copy.getbyte(at) ^ 1) } }
      moved = bytes[0, 35] + [name.bytesize].pack("n") + bytes[37] + name + bytes[(38 + bytes[35, 2].unpack1("n"))..]
      made = [*changed, moved, bytes[0, 38], bytes[0...-1], bytes[0, 35] + "\xff\xff".b + bytes[37..], Random.bytes(80)]
      ["", "x", "=" * 60, "\u0000" * 60, token[0...-2], token[0, token.size / 2], token.reverse, *made.map { |text| [text].pack("m0").tr("+/", "-_").delete("=") }]
    end

    it "R-HTTP-1 report nothing with tokens that are forged, truncated or of another queue" do
      [queue, other].each { |name| push("a", to: name) }
      mine, theirs = token_of, token_of(from: other)
      wrong = forged(mine, theirs).product(reports.to_a).reject { |token, (route, more)| [400, 409].include?(consume(route, { token: token, **more }).status) }
      expect(wrong).to eq([])
      [5, nil, [], {}, true].each { |token| expect([token, consume("ack", { token: token }).status]).to eq([token, 400]) }
      expect([mine, theirs].map { |token| consume("ack", { token: token }).status }).to eq([200, 200])
    end

    it "R-HTTP-3 wait, take and run no longer than allowed, and read nothing that is malformed" do
      push("a")
      before = live.digest
      numbers = { wait: %w[-1 -1e308 60.5 1e999 9223372036854775808 NaN "2" null true [] -], ttr: %w[-1 1e300 "1" []], max: %w[0 -1 1001 1e9 1.5], weights: %w[[] [0] [-1] [1,2] [1e9] 1] }
      bodies = numbers.flat_map { |field, values| values.map { |value| ["pop", %({"queues":[#{queue.to_json}],"#{field}":#{value}})] } } -
               [["pop", %({"queues":[#{queue.to_json}],"weights":[]})], ["pop", %({"queues":[#{queue.to_json}],"wait":null})]]
      deep = "#{"[" * 5000}#{"]" * 5000}"
      bodies += [["pop", ""], ["pop", "[]"], ["pop", "{"], ["pop", "\xff\xfe"], ["pop", deep], ["pop", '{"queues":[]}'], ["pop", { queues: Array.new(1001) { queue } }],
                 ["push", { queue: queue, jobs: [] }], ["push", { queue: queue, jobs: Array.new(1001) { { id: "x", payload: 1 } } }], ["push", %({"queue":#{queue.to_json},"jobs":[{"id":"x","payload":#{deep}}]})],
                 ["push", { queue: queue, jobs: [{ id: "", payload: 1 }] }], ["push", { queue: queue, jobs: [{ id: "x" * 5000, payload: 1 }] }],
                 ["push", { queue: queue, jobs: [{ id: "good", payload: 1 }, { id: "bad" }] }]]
      statuses = bodies.map { |route, body| [route, body.to_s[0, 100], consume(route, body).status] }
      expect(statuses.reject { |_, _, status| status == 400 }).to eq([])
      ["no such queue", "\r\n*1\r\n$8\r\nFLUSHALL\r\n", "{x}", "../#{queue}"].each { |name| expect([name, pop(from: name).status]).to eq([name, 404]) }
      expect(live.digest).to eq(before)
      finish("a", 1)
    end

    it "R-HTTP-3 send too much, another type, another method, or ask for what is not there" do
      push("a")
      before = live.digest
      %w[push pop ack].each { |route| expect([route, consume(route, "{\"queues\":[\"#{"x" * 1_100_000}\"]}").status]).to eq([route, 413]) }
      ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/jsonp", nil].each do |type|
        expect([type, consume("pop", { queues: [queue] }, "Content-Type": type).status]).to eq([type, 415])
      end
      %w[GET HEAD PUT DELETE].each { |method| expect([method, consume("pop", nil, method: method).status]).to eq([method, 405]) }
      expect(consume("pop", { queues: [queue] }, "Sec-Fetch-Site": "cross-site").status).to eq(403)
      expect(consume("pop", { queues: [queue] }, Origin: "https://evil.example").status).to eq(403)
      expect(consume("nothing", {}).status).to eq(404)
      expect(live.digest).to eq(before)
      finish("a", 1)
    end

    # A connection with this body of a pop under way.
    def client(body, length: body.bytesize)
      io = Socket.tcp(site.host, site.port)
      io.write("POST #{site.prefix}/api/v1/consume/pop HTTP/1.1\r\nHost: #{site.host}:#{site.port}\r\nContent-Type: application/json\r\nContent-Length: #{length}\r\n\r\n#{body}")
      io
    end

    # Closes the connection with a reset.
    def reset(io)
      io.setsockopt(:SOCKET, :LINGER, [1, 0].pack("ii"))
      io.close
    end

    def questions = live.redis.call("INFO", "commandstats")[/cmdstat_evalsha:calls=(\d+)/, 1].to_i

    it "R-HTTP-4 vanish while they wait: the next one gets the job at once, and it counts as never delivered" do
      before = questions
      clients = Array.new(2) { client(JSON.generate(queues: [queue], wait: 60)) }
      live.until_true("both have asked two shards and ask again") { questions >= before + 8 }
      clients.first.close
      reset(clients.last)
      live.until_true("nobody asks any more") { [questions, sleep(2)].first == questions }
      push("kept")
      finish("kept", 1)
    end

    it "R-HTTP-4 vanish before they have asked, or amid the answer" do
      push("kept")
      3.times { |number| client('{"queues":[', length: 100).then { |io| number.zero? ? io.close : reset(io) } }
      finish("kept", 1)
      push("kept")
      reset(client(JSON.generate(queues: [queue], wait: 0, ttr: 0.2)))
      finish("kept", 1..2) # the claim may have come before the end of the connection
    end
  end
end
