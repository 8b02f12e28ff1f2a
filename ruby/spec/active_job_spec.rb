# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

RSpec.describe "ActiveJob" do
  before(:all) do
    skip "ActiveJob is not installed" unless Gem::Specification.find_all_by_name("activejob").any?
    require "active_job"
    require "active_job/queue_adapters/seriatim_adapter"
    require "active_support/core_ext/integer/time"
    ActiveJob::Base.logger = Logger.new(nil)
  end

  before do
    @done = Thread::Queue.new
    Seriatim.reset_settings
    Seriatim.redis = REDIS.url
    Seriatim.format_error = ->(error) { "#{error.class}: #{error.message}" }
    Seriatim.logger = Seriatim::Log.default(@log)
    Seriatim.poll_interval = 0.2
  end
  after { Seriatim::ActiveJob.queues = nil }

  # A job class with a name, on a queue of its own; the block is its perform.
  def job_class(queue: "jobs", superclass: ActiveJob::Base, &perform)
    @classes = (@classes || 0) + 1
    name = "Job#{@classes}For#{queue.capitalize}"
    done = @done
    stub_const(name, Class.new(superclass) do
      self.queue_adapter = :seriatim
      queue_as queue
      define_method(:done) { |what| done << what }
      define_method(:perform, &perform || ->(*arguments) { done(arguments) })
    end)
  end

  def queue(name = "jobs") = Seriatim::ActiveJob.queue(name)
  def run(name = "jobs") = serve(queue(name))
  def take(count) = Timeout.timeout(60) { Array.new(count) { @done.pop } }

  it "R-JOB-1: runs jobs with one ordered_by value in the order in which they were enqueued" do
    job = job_class { |order_id, number| done([order_id, number]) }
    job.ordered_by { |order_id, _number| order_id }
    20.times { |number| job.perform_later(number % 2, number) }
    run
    expect(take(20).group_by(&:first).transform_values { |all| all.map(&:last) }).to eq(0 => 0.step(18, 2).to_a, 1 => 1.step(19, 2).to_a)
  end

  it "R-JOB-1: finds the id by a block, by the name of an argument or of a keyword; without ordered_by each job is an id" do
    model = Class.new do
      include GlobalID::Identification
      def id = 5
      def self.name = "Order"
    end
    GlobalID.app ||= "test"
    by_name = job_class(queue: "named") { |order| done(order) }
    by_name.class_eval { def perform(order) = nil }
    by_name.ordered_by :order
    by_keyword = job_class(queue: "named") { |order_id:| done(order_id) }
    by_keyword.ordered_by :order_id
    heir = job_class(queue: "named", superclass: by_keyword)
    plain = job_class(queue: "named")
    [by_name.new(model.new), by_keyword.new(order_id: :seven), heir.new(order_id: 8)].zip(["Order/5", "seven", "8"]) do |job, id|
      expect(Seriatim::ActiveJob::Ordering.id_of(job)).to eq(id)
    end
    one = plain.new(1)
    expect(Seriatim::ActiveJob::Ordering.id_of(one)).to eq(one.job_id)
    expect { Seriatim::ActiveJob::Ordering.id_of(by_keyword.new(1)) }.to raise_error(Seriatim::Invalid, /ordered_by names order_id/)
    expect { by_keyword.perform_later(order_id: nil) }.to raise_error(Seriatim::Invalid, /ordered_by must be a String, a Symbol, an Integer or a model, not nil/)
  end

  it "R-JOB-1: finds the argument that perform gives the name to, not a key of a Hash, also behind optional ones and a splat" do
    {
      ->(account, attributes = {}) {} => [[:account, [7, { account: 9 }], "7"], [:account, [7], "7"], [:attributes, [7, "x"], "x"]],
      ->(*_names, id) {} => [[:id, ["a", "b", 5], "5"], [:id, [5], "5"]],
      ->(_first, id = 0, *_rest, last) {} => [[:id, [1, 2, 3], "2"], [:id, [1, 3], nil], [:last, [1, 3], "3"], [:last, [1, 2, 8, 9, 3], "3"]],
      ->(*_names, id, at:) {} => [[:id, ["a", 5, { at: 1 }], "5"], [:at, ["a", 5, { at: 1 }], "1"]],
      ->(*_all) {} => [[:id, [1, { id: 4 }], "4"], [:id, [1], nil]],
      ->(**_all) {} => [[:id, [{ id: 4 }], "4"]]
    }.each do |perform, cases|
      job = job_class(&perform)
      cases.each do |name, arguments, id|
        job.ordered_by name
        keywords = arguments.last.is_a?(Hash) && perform.parameters.any? { |kind, _| %i[key keyreq keyrest].include?(kind) } ? arguments.last : {}
        one = job.new(*(keywords.empty? ? arguments : arguments[..-2]), **keywords)
        find = -> { Seriatim::ActiveJob::Ordering.id_of(one) }
        id ? expect([name, arguments, find.call]).to(eq([name, arguments, id])) : expect(&find).to(raise_error(Seriatim::Invalid, /no argument for/))
      end
    end
  end

  it "R-JOB-2: runs a job again in its place: later jobs of its id wait, other ids go on" do
    failures = [1]
    job = job_class do |id, number|
      done([id, number, executions])
      raise ArgumentError if id == "a" && failures.delete(number)
    end
    job.ordered_by { |id, _number| id }
    job.retry_on(ArgumentError, wait: 5.seconds)
    3.times { |number| job.perform_later("a", number) }
    begun = now
    run
    expect(take(2)).to eq([["a", 0, 1], ["a", 1, 1]])
    job.perform_later("b", 0)
    expect(take(1)).to eq([["b", 0, 1]])
    expect(take(2)).to eq([["a", 1, 2], ["a", 2, 1]])
    expect(now - begun).to be > 4.9
  end

  it "R-JOB-2: retries at once in the test mode :inline" do
    skip "there is no test mode" unless Seriatim.respond_to?(:testing!)
    job = job_class do
      done(executions)
      raise ArgumentError if executions < 3
    end
    job.retry_on(ArgumentError, wait: 1.hour)
    Seriatim.testing!(:inline) { job.perform_later }
    expect(Array.new(@done.size) { @done.pop }).to eq([1, 2, 3])
  end

  it "R-JOB-2: enqueues a retry on another queue as a new job, and goes on" do
    job = job_class do |number|
      done([number, queue_name])
      retry_job(queue: "others") if queue_name == "jobs" && number == 1
    end
    job.ordered_by { |_number| "a" }
    [1, 2].each { |number| job.perform_later(number) }
    serve(queue, queue("others"))
    expect(take(3)).to contain_exactly([1, "jobs"], [2, "jobs"], [1, "others"])
  end

  it "R-JOB-3: moves a job that ActiveJob gives up to the morgue, and goes on with the next of its id" do
    job = job_class do |number|
      done(number)
      raise "broken" if number == 1
    end
    job.ordered_by { |_number| "a" }
    3.times { |number| job.perform_later(number) }
    run
    expect(take(3)).to eq([0, 1, 2])
    dead = eventually { queue.queries.morgue_range_by_id("-", "+").first }
    expect([dead[:id], dead[:error], dead[:payloads].map { |payload, _score| payload["arguments"] }]).to eq(["a", "RuntimeError: broken", [[1]]])
  end

  # Ids of one delivery.
  def batched
    queue("batched").tap do |worker|
      worker.shards_count = 1
      worker.batch_size = 3
    end
  end

  { "raises what is no StandardError" => -> { raise NotImplementedError }, "ends its thread" => -> { Thread.exit } }.each do |does, ends|
    it "R-JOB-3: moves only the job that #{does} to the morgue, and runs those of the other ids of its batch once" do
      job = job_class(queue: "batched") do |id|
        done(id)
        ends.call if id == "b"
      end
      job.ordered_by { |id| id }
      worker = batched
      %w[a b c].each { |id| job.perform_later(id) }
      serve(worker, threads: 1)
      expect(take(3)).to contain_exactly("a", "b", "c")
      drained(worker)
      expect(@done).to be_empty
      expect(worker.queries.morgue_range_by_id("-", "+").map { |row| row[:id] }).to eq(["b"])
    end
  end

  it "R-JOB-3: ends a job that discard_on discards" do
    job = job_class do
      done(1)
      raise ArgumentError
    end
    job.discard_on(ArgumentError)
    job.perform_later
    run
    take(1)
    drained(queue)
    expect(queue.metrics.values_at(:retries, :morgue_length)).to eq([0, 0])
  end

  it "R-JOB-4: enqueues at any time, lists, reschedules and cancels by provider_job_id" do
    job = job_class
    other = job_class
    far = 10.years.from_now
    late = job.set(wait_until: far).perform_later(1)
    soon = other.set(wait: 3600).perform_later(2)
    listed = Seriatim::ActiveJob.scheduled(queue: "jobs")
    expect(listed.map { |row| row.values_at(:job_class, :arguments, :provider_job_id) }).to eq([[other.name, [2], soon.provider_job_id], [job.name, [1], late.provider_job_id]])
    expect(listed.last[:scheduled_at]).to be_within(0.001).of(far.to_f)
    expect(Seriatim::ActiveJob.scheduled(job_class: job).map { |row| row[:job_id] }).to eq([late.job_id])
    expect(Seriatim::ActiveJob.cancel(soon.provider_job_id)).to be(true)
    expect(Seriatim::ActiveJob.cancel(soon.provider_job_id)).to be(false)
    expect(Seriatim::ActiveJob.reschedule(late.provider_job_id, Time.now)).to be(true)
    run
    expect(take(1)).to eq([[1]])
    expect { Seriatim::ActiveJob.cancel("x") }.to raise_error(Seriatim::Invalid, /provider_job_id/)
  end

  it "R-JOB-4: gives a job the provider_job_id of its perform_later when it runs, also when it is retried or was scheduled" do
    job = job_class do |number|
      done([number, executions, provider_job_id])
      raise ArgumentError if number == 1 && executions == 1
    end
    job.ordered_by { "a" }
    job.retry_on(ArgumentError, wait: 0)
    ids = [job.perform_later(0), job.perform_later(1), job.set(wait: 0.5).perform_later(2)].map(&:provider_job_id)
    run
    expect(take(4)).to eq([[0, 1, ids[0]], [1, 1, ids[1]], [1, 2, ids[1]], [2, 1, ids[2]]])
    expect(ids.uniq.size).to eq(3)
  end

  it "R-JOB-4: gives a job that runs again on another queue the provider_job_id of that one, and stores none" do
    job = job_class { |number| done([number, queue_name, provider_job_id]) && queue_name == "jobs" && raise(ArgumentError) }
    job.retry_on(ArgumentError, wait: 3600, queue: "others")
    id = job.perform_later(0).provider_job_id
    run
    expect(take(1)).to eq([[0, "jobs", id]])
    drained(queue)
    waiting = Seriatim::ActiveJob.scheduled(queue: "others").first[:provider_job_id]
    expect(waiting).to start_with("others:")
    expect(queue("others").queries.range_by_deliver_at("-inf", "+inf").map { |row| row[:payload]["provider_job_id"] }).to eq([nil])
    expect(Seriatim::ActiveJob.reschedule(waiting, Time.now)).to be(true)
    run("others")
    expect(take(1)).to eq([[0, "others", waiting]])
  end

  it "R-JOB-4: gives a job its provider_job_id in the test modes, too" do
    skip "there is no test mode" unless Seriatim.respond_to?(:testing!)
    job = job_class { done(provider_job_id) }
    Seriatim.testing!(:fake) do
      id = job.perform_later.provider_job_id
      queue.drain
      expect(take(1)).to eq([id])
    end
    id = Seriatim.testing!(:inline) { job.perform_later.provider_job_id }
    expect(take(1)).to eq([id])
  end

  it "R-JOB-4: enqueues for any distance, and lists the exact time" do
    job = job_class
    times = [899.seconds, 900.seconds, 901.seconds, 1.day, 90.days, 10.years].map(&:from_now)
    times.each_with_index { |time, number| job.set(wait_until: time).perform_later(number) }
    listed = Seriatim::ActiveJob.scheduled(job_class: job)
    expect(listed.map { |row| row[:arguments] }).to eq([[0], [1], [2], [3], [4], [5]])
    expect(listed.map { |row| row[:scheduled_at] }).to match(times.map { |time| be_within(0.001).of(time.to_f) })
  end

  it "R-JOB-4: starts a delayed job in time, and lets a job without a delay overtake it" do
    job = job_class { |number| done([number, Time.now.to_f]) }
    job.ordered_by { |_number| "a" }
    begun = now
    job.set(wait: 6).perform_later(1)
    run
    job.perform_later(2)
    (first, _), (second, at) = take(2)
    expect([first, second]).to eq([2, 1])
    expect(at - begun).to be_between(6, 26)
  end

  it "R-JOB-5: pushes many jobs in one call for each queue" do
    job = job_class
    other = job_class(queue: "others")
    jobs = Array.new(1000) { |number| number.even? ? job.new(number) : other.new(number) }
    jobs.each { |one| one.singleton_class.attr_accessor :successfully_enqueued unless one.respond_to?(:successfully_enqueued=) }
    jobs.each { |one| one.define_singleton_method(:successfully_enqueued?) { successfully_enqueued } unless one.respond_to?(:successfully_enqueued?) }
    pushes = []
    Seriatim.client_middlewares = [->(worker, rows, &block) { (pushes << [worker.queue_name, rows.size]) && block.call }]
    expect(ActiveJob::QueueAdapters::SeriatimAdapter.new.enqueue_all(jobs)).to eq(1000)
    expect(pushes).to eq([["jobs", 500], ["others", 500]])
    expect(jobs.map(&:provider_job_id).uniq.size).to eq(1000)
    serve(queue, queue("others"))
    expect(take(1000).flatten.sort).to eq((0...1000).to_a)
  end

  it "R-JOB-6: brings arguments back as ActiveJob's own adapters do" do
    job = job_class
    values = [2**64, 2**53 + 1, 0.1, 1e300, BigDecimal("1.10"), "ümlaut \u0000", :symbol, Date.new(2030, 1, 1), Time.utc(2030, 1, 1, 1, 2, 3),
              { "a" => [nil, true, { b: 1 }] }, 3.seconds]
    job.perform_later(*values)
    run
    expect(take(1)).to eq([values])
  end

  it "R-JOB-7: raises what keeps a job from being enqueued" do
    job = job_class
    Seriatim.redis = "redis://127.0.0.1:1"
    Seriatim.push_timeout = 0.5
    expect { job.perform_later }.to raise_error(Seriatim::Error)
    Seriatim.redis = REDIS.url
    Seriatim.push_timeout = 50
    limited = job_class(queue: "once")
    limited.ordered_by { "a" }
    queue("once").on_waiting = :reject
    limited.perform_later
    expect { ActiveJob::QueueAdapters::SeriatimAdapter.new.enqueue(limited.new) }.to raise_error(Seriatim::ActiveJob::EnqueueError, /on_waiting is reject/)
  ensure
    queue("once").on_waiting = :earlier
  end

  it "R-JOB-7: raises where a client middleware keeps a job from being pushed, or changes the number of jobs" do
    job = job_class.new
    adapter = ActiveJob::QueueAdapters::SeriatimAdapter.new
    [->(*) {}, ->(_worker, rows, &block) { rows.clear && block.call }].each do |middleware|
      Seriatim.client_middlewares = [middleware]
      expect { adapter.enqueue(job) }.to raise_error(Seriatim::ActiveJob::EnqueueError, /client middleware/)
      expect(job.provider_job_id).to be_nil
    end
    pair = Array.new(2) { job_class.new }
    Seriatim.client_middlewares = [->(_worker, rows, &block) { rows.shift && block.call }]
    expect { adapter.enqueue_all(pair) }.to raise_error(Seriatim::Error, /number of jobs from 2 to 1/)
    expect(pair.map(&:provider_job_id)).to eq([nil, nil])
  end

  it "R-JOB-8: serves the queues of the loaded job classes beside the workers" do
    job = job_class(queue: "found")
    Seriatim.workers = [worker("Beside")]
    server = Seriatim::Server.new
    (@servers = [server]).first.start
    job.perform_later(3)
    expect(take(1)).to eq([[3]])
    Seriatim::ActiveJob.queues = ["others"]
    expect(Seriatim::ActiveJob.workers.map(&:queue_name)).to eq(["others"])
    expect { queue.fold = :merge }.to raise_error(Seriatim::Invalid, /ActiveJob queue "jobs": the ActiveJob adapter needs its own fold/)
  end

  it "R-JOB-8: serves the default queue of classes without queue_as, with the prefix of each class" do
    skip "Action Mailer is not installed" unless Gem::Specification.find_all_by_name("actionmailer").any?
    require "action_mailer"
    mails = ActionMailer::Base.deliver_later_queue_name
    ActionMailer::Base.deliver_later_queue_name = "mailers" # else the queue of mail may be the default one
    done = @done
    plain = stub_const("PlainJob", Class.new(ActiveJob::Base) do
      self.queue_adapter = :seriatim
      define_method(:perform) { done << queue_name }
    end)
    prefixed = stub_const("PrefixedJob", Class.new(plain) { self.queue_name_prefix = "shop" })
    stub_const("BlockJob", Class.new(plain) { queue_as { "chosen" } })
    names = Seriatim::ActiveJob.workers.map(&:queue_name)
    expect(names).to include("default", "shop_default", "mailers")
    expect(names).not_to include("chosen")
    [plain, prefixed].each(&:perform_later)
    Seriatim.workers = [worker("Beside")]
    (@servers = [Seriatim::Server.new]).first.start
    expect(take(2)).to contain_exactly("default", "shop_default")
  ensure
    ActionMailer::Base.deliver_later_queue_name = mails if mails
  end

  it "R-JOB-9: tells a running job that the server stops" do
    job = job_class do
      done(queue_adapter.stopping?)
      Timeout.timeout(60) { sleep 0.01 until queue_adapter.stopping?(self) }
      done(:stopping)
    end
    job.perform_later
    server = run
    expect(take(1)).to eq([false])
    expect(server.stop(60)).to be(true)
    expect(take(1)).to eq([:stopping])
  end

  it "R-JOB-9: leaves the later jobs of an id to another server when it stops" do
    job = job_class do |number|
      done([number, executions])
      Timeout.timeout(60) { sleep 0.01 until queue_adapter.stopping? } if number == 1
    end
    job.ordered_by { |_number| "a" }
    [1, 2, 3].each { |number| job.perform_later(number) }
    server = run
    expect(take(1)).to eq([[1, 1]])
    expect(server.stop(60)).to be(true)
    expect(@done).to be_empty
    run
    expect(take(2)).to eq([[2, 1], [3, 1]])
    expect(queue.metrics[:morgue_length]).to eq(0)
  end

  it "R-JOB-9: leaves the later ids of a batch to another server when it stops" do
    job = job_class(queue: "batched") do |id|
      done(id)
      Timeout.timeout(60) { sleep 0.01 until queue_adapter.stopping? }
    end
    job.ordered_by { |id| id }
    worker = batched
    %w[a b].each { |id| job.perform_later(id) }
    server = serve(worker, threads: 1)
    first = take(1)
    expect(server.stop(60)).to be(true)
    expect(@done).to be_empty
    expect(worker.queries.range_by_id("-", "+").map { |row| [row[:id], row[:retry_count]] }).to eq((%w[a b] - first).map { |id| [id, -1] })
  end

  # What a record of ActiveRecord is to ActiveJob.
  def model(name)
    GlobalID.app ||= "test"
    stub_const(name, Class.new do
      include GlobalID::Identification
      attr_reader :id
      define_method(:initialize) { |id| @id = id.to_i }
      define_method(:==) { |other| other.class == self.class && other.id == id }
      define_singleton_method(:find) { |id| new(id) }
      define_singleton_method(:name) { name }
    end)
  end

  it "R-JOB-6: brings records, locale and time zone back" do
    require "i18n"
    I18n.available_locales = %i[en de]
    order = model("Order").new(5)
    job = job_class { |record| done([record, I18n.locale, Time.zone&.name]) }
    job.ordered_by { |record| record }
    I18n.with_locale(:de) { Time.use_zone("Hawaii") { job.perform_later(order) } }
    expect(queue.queries.range_by_id("-", "+").first[:id]).to eq("Order/5")
    run
    expect(take(1)).to eq([[order, :de, "Hawaii"]])
    expect([I18n.locale, Time.zone]).to eq([:en, nil])
  end

  it "R-JOB-6: discards a job whose record is gone, if its class says so" do
    gone = model("Gone")
    job = job_class
    job.discard_on(ActiveJob::DeserializationError)
    gone.define_singleton_method(:find) { |_id| raise "no record" }
    job.perform_later(gone.new(1))
    run
    drained(queue)
    expect(queue.metrics.values_at(:retries, :morgue_length)).to eq([0, 0])
  end

  it "R-JOB-8: delivers mail later" do
    skip "Action Mailer is not installed" unless Gem::Specification.find_all_by_name("actionmailer").any?
    require "action_mailer"
    ActionMailer::Base.delivery_method = :test
    ActionMailer::MailDeliveryJob.queue_adapter = :seriatim
    mailer = stub_const("WelcomeMailer", Class.new(ActionMailer::Base) do
      self.delivery_job = ActionMailer::MailDeliveryJob
      define_method(:hello) { |to| mail(to: to, from: "shop@example.com", subject: "Hello", body: "Welcome") }
    end)
    sent = mailer.hello("ann@example.com").deliver_later
    expect(sent.provider_job_id).to start_with("#{sent.queue_name}:")
    serve(queue(sent.queue_name))
    expect(eventually { ActionMailer::Base.deliveries.first }.to).to eq(["ann@example.com"])
    expect(Seriatim::ActiveJob.workers.map(&:queue_name)).to include(sent.queue_name)
  ensure
    ActionMailer::MailDeliveryJob.queue_adapter = :inline if defined?(ActionMailer::MailDeliveryJob)
  end

  it "R-JOB-8: serves the queue that a mailer has of its own" do
    skip "Action Mailer is not installed" unless Gem::Specification.find_all_by_name("actionmailer").any?
    require "action_mailer"
    job_class
    # As deliver_later_queue_name = "letters" does from Rails 7.1 on; before, the name is that of all mailers.
    mailer = stub_const("LetterMailer", Class.new(ActionMailer::Base) { def self.deliver_later_queue_name = "letters" })
    stub_const("HeirMailer", Class.new(mailer) { def self.deliver_later_queue_name = "cards" })
    expect(Seriatim::ActiveJob.workers.map(&:queue_name)).to include("letters", "cards")
  end

  # What ActiveJob::Continuation does when the adapter says that the server stops.
  it "R-JOB-9: runs a job that interrupted itself at a stop before the later ones of its id" do
    job = job_class do |number|
      done([number, executions])
      next unless number == 1 && executions == 1

      Timeout.timeout(60) { sleep 0.01 until queue_adapter.stopping?(self) }
      retry_job
    end
    job.ordered_by { |_number| "a" }
    [1, 2].each { |number| job.perform_later(number) }
    server = run
    expect(take(1)).to eq([[1, 1]])
    expect(server.stop(60)).to be(true)
    run
    expect(take(2)).to eq([[1, 2], [2, 1]])
  end
end
