# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/rails_program"

# What an application of Rails sees of pushes and runs. Each example is a program in a small application with a server of its own.
RSpec.describe "Rails around pushes and runs", limit: 240 do
  before(:all) { RailsProgram.skip_reason&.then { |reason| skip reason } }

  def answer(program, **options) = RailsProgram.answer(program, **options)

  it "R-RAILS-3: tells ActiveSupport::Notifications of pushes, runs and failures" do
    events = answer(<<~'RUBY')
      events = []
      %w[push perform fail].each { |name| ActiveSupport::Notifications.subscribe("#{name}.seriatim") { |event| events << [event.name, event.payload] } }
      work = worker("Noted") { |payloads, _| raise "no" if payloads.key?("2") }
      work.perform_async([{ id: 1, payload: 5 }, { id: 2 }])
      run(work) { events.size >= 4 }
      answer events.map { |name, payload|
        payload = payload.merge(worker: payload[:worker].equal?(work), result: payload[:result]&.added, error: payload[:error]&.message).compact
        [name, payload.except(:exception_object, :shard)]
      }.sort_by(&:to_s)
    RUBY
    expect(events.map(&:to_s)).to match_array([
      ["fail.seriatim", { "worker" => true, "queue" => "Noted", "id" => "2", "retry_count" => 0, "error" => "no" }],
      ["perform.seriatim", { "worker" => true, "queue" => "Noted", "ids" => ["1"], "payloads_count" => 1 }],
      ["perform.seriatim", { "worker" => true, "queue" => "Noted", "ids" => ["2"], "payloads_count" => 1, "exception" => %w[RuntimeError no] }],
      ["push.seriatim", { "worker" => true, "queue" => "Noted", "jobs" => [{ "id" => 1, "payload" => 5 }, { "id" => 2 }], "result" => 2 }]
    ].map(&:to_s))
  end

  it "R-RAILS-4: logs to Rails.logger, where lines of jobs have the worker and the id" do
    log = answer(<<~'RUBY')
      work = worker("Tagged", batch_size: 1) { |payloads, _| Rails.logger.info("in the job #{payloads.keys.first}"); raise "broken" if payloads.key?("2") }
      work.perform_async([{ id: "1" }, { id: "2\n" }, { id: 2 }])
      run(work) { log.include?("broken") && log.scan("in the job").size >= 3 }
      answer log
    RUBY
    expect(log).to include("[Tagged] [1] in the job 1\n", "[Tagged] [2 | ] in the job 2\n", "[Tagged] [2] in the job 2\n")
    expect(log).to match(/^fail RuntimeError: broken .* q=Tagged id=2 n=0/).and match(/^start node/)
    expect(log).not_to match(/^\[Tagged\] .*fail /)
  end

  it "R-RAILS-5: gives errors to Rails.error once, with queue, id and retry_count" do
    skip "Rails.error came with Rails 7.0" unless RailsProgram.at_least?("7.1")
    reports = answer(<<~'RUBY')
      reports = []
      Rails.error.subscribe(Class.new { define_method(:report) { |error, handled:, severity:, context:, source: nil| reports << [error.message, handled, context.slice(:queue, :id, :ids, :retry_count), source] } }.new)
      raises = worker("Raises") { |_, _| raise "raised" }
      missing = worker("Missing") { |_, _| raise NotImplementedError, "missing" }
      reported = worker("Reports", batch_size: 10) { |payloads, batch| batch.done("a"); batch.fail("b", IOError.new("failed b")); batch.fail("c", "text"); raise "rest" }
      raises.perform_async([{ id: 7 }])
      missing.perform_async([{ id: 8 }])
      reported.shards_count = 1
      reported.perform_async(%w[a b c d e].map { |id| { id: id } })
      run(raises, missing, reported) { reports.size >= 4 }
      answer reports.sort_by(&:first)
    RUBY
    expect(reports).to eq([
      ["failed b", false, { "queue" => "Reports", "id" => "b", "ids" => ["b"], "retry_count" => -1 }, "job.seriatim"],
      ["missing", false, { "queue" => "Missing", "id" => "8", "ids" => ["8"], "retry_count" => -1 }, "job.seriatim"],
      ["raised", false, { "queue" => "Raises", "id" => "7", "ids" => ["7"], "retry_count" => -1 }, "job.seriatim"],
      ["rest", false, { "queue" => "Reports", "id" => "d", "ids" => %w[d e], "retry_count" => -1 }, "job.seriatim"]
    ])
  end

  it "R-RAILS-6: hands the database connection back after each run, and warns of a pool below the threads" do
    said = answer(<<~'RUBY', database: true)
      work = worker("Connected") { |_, _| ActiveRecord::Base.connection.select_value("select 1") }
      Seriatim.threads_per_node = 6
      work.perform_async(Array.new(20) { |id| { id: id } })
      run(work) { work.metrics[:processed] >= 20 }
      answer [log[/\d+ threads share a database pool of \d+ connections/], ActiveRecord::Base.connection_pool.connections.count(&:in_use?)]
    RUBY
    expect(said).to eq(["6 threads share a database pool of 5 connections", 0])
  end

  it "R-RAILS-4, R-RAILS-6: calls retries_exhausted inside the reloader, which hands its database connection back" do
    told, in_use, log = answer(<<~'RUBY', database: true)
      told = []
      work = worker("Exhausted", max_retry_count: 0) { |_, _| raise "broken" }
      work.define_singleton_method(:retries_exhausted) do |jobs|
        ActiveRecord::Base.connection.select_value("select 1")
        Rails.logger.info("in the hook")
        told << [jobs.map { |job| job[:id] }, Rails.application.executor.active?]
      end
      work.perform_async([{ id: 1 }])
      run(work) { told.any? }
      answer [told, ActiveRecord::Base.connection_pool.connections.count(&:in_use?), log]
    RUBY
    expect([told, in_use]).to eq([[[["1"], true]], 0])
    expect(log).to include("[Exhausted] [1] in the hook\n")
  end

  it "R-RAILS-5: gives an error of retries_exhausted to Rails.error" do
    skip "Rails.error came with Rails 7.0" unless RailsProgram.at_least?("7.1")
    reports = answer(<<~'RUBY')
      reports = []
      Rails.error.subscribe(Class.new { define_method(:report) { |error, handled:, severity:, context:, source: nil| reports << [error.message, handled, context.slice(:queue, :id, :ids, :retry_count), source] } }.new)
      work = worker("Exhausted", max_retry_count: 0) { |_, _| raise "broken" }
      work.define_singleton_method(:retries_exhausted) { |_jobs| raise "hook" }
      work.perform_async([{ id: 7 }])
      run(work) { reports.size >= 2 }
      answer reports
    RUBY
    expect(reports.last).to eq(["hook", false, { "queue" => "Exhausted", "id" => "7", "ids" => ["7"], "retry_count" => 0 }, "job.seriatim"])
  end

  it "R-RAILS-10: carries CurrentAttributes and the locale from the push to the run" do
    seen = answer(<<~'RUBY')
      class Current < ActiveSupport::CurrentAttributes
        attribute :account, :user
      end
      I18n.available_locales = %i[en fr]
      Seriatim::CurrentAttributes.persist("Current")
      seen = []
      look = -> { [Current.account, Current.user, I18n.locale] }
      alike = worker("Alike", fold: :list) { |payloads, _| seen << ["alike", payloads.values.flatten, look.call] }
      mixed = worker("Mixed", fold: :list) do |payloads, batch|
        seen << ["mixed", payloads.values.flatten, look.call]
        batch.contexts("1").zip(payloads["1"]) { |context, payload| Seriatim::CurrentAttributes.with(context) { seen << ["with", payload, look.call] } }
      end
      Current.set(account: 5, user: { name: :ann }) do
        I18n.with_locale(:fr) { alike.perform_async([{ id: 1, payload: 1 }, { id: 1, payload: 2 }]) }
        mixed.perform_async([{ id: 1, payload: 1 }, { id: 2, payload: 3, context: { "trace" => "t", "locale" => "fr" } }])
      end
      mixed.perform_async([{ id: 1, payload: 2 }])
      run(alike, mixed) { seen.size >= 5 }
      answer seen.sort_by { |word, payload, _| [word, payload.to_s] }
    RUBY
    ann = { "name" => "ann" }
    expect(seen).to eq([
      ["alike", [1, 2], [5, ann, "fr"]], ["mixed", [1, 2], [nil, nil, "en"]], ["mixed", [3], [5, ann, "fr"]],
      ["with", 1, [5, ann, "en"]], ["with", 2, [nil, nil, "en"]]
    ])
  end

  it "R-RAILS-10: carries them to each job of ActiveJob" do
    seen = answer(<<~'RUBY')
      require "active_job/railtie"
      ActiveJob::Base.queue_adapter = :seriatim
      ActiveJob::Base.logger = Logger.new(nil)
      class Current < ActiveSupport::CurrentAttributes
        attribute :account
      end
      SEEN = []
      class AccountJob < ActiveJob::Base
        ordered_by :number
        def perform(number, text) = SEEN << [text, Current.account]
      end
      Seriatim::CurrentAttributes.persist("Current")
      Current.set(account: 1) { AccountJob.perform_later(7, "one") }
      Current.set(account: 2) { AccountJob.perform_later(7, "two") }
      AccountJob.perform_later(7, "none")
      run(Seriatim::ActiveJob.queue("default")) { SEEN.size >= 3 }
      answer SEEN
    RUBY
    expect(seen).to eq([["one", 1], ["two", 2], ["none", nil]])
  end

  it "R-RAILS-10: leaves out an attribute that the class does not have, as one of another version" do
    seen = answer(<<~'RUBY')
      require "active_job/railtie"
      ActiveJob::Base.queue_adapter = :seriatim
      ActiveJob::Base.logger = Logger.new(nil)
      class Current < ActiveSupport::CurrentAttributes
        attribute :account
      end
      SEEN = []
      class AccountJob < ActiveJob::Base
        def perform = SEEN << ["job", Current.account]
      end
      Seriatim::CurrentAttributes.persist("Current")
      context = { "Current" => JSON.generate(ActiveJob::Arguments.serialize([{ tenant: 1, account: 5 }])) }
      plain = worker("Plain", max_retry_count: 0) { |_, _| SEEN << ["plain", Current.account] }
      jobs = Seriatim::ActiveJob.queue("default")
      plain.perform_async([{ id: 1, context: context }])
      jobs.perform_async([{ id: 1, payload: AccountJob.new.serialize, context: context }])
      run(plain, jobs) { [plain, jobs].sum { |queue| queue.metrics.values_at(:length, :busy).sum }.zero? }
      answer SEEN.sort
    RUBY
    expect(seen).to eq([["job", 5], ["plain", 5]])
  end

  it "R-RAILS-8, R-RAILS-10: pushes after a commit with attributes and locale of the call, and tells of the push when it is written" do
    seen = answer(<<~'RUBY', database: true)
      class Current < ActiveSupport::CurrentAttributes
        attribute :account
      end
      I18n.available_locales = %i[en fr]
      Seriatim::CurrentAttributes.persist("Current")
      seen = []
      ActiveSupport::Notifications.subscribe("push.seriatim") { |event| seen << ["push", event.payload[:result]&.added] }
      work = worker("Committed", fold: :list) { |payloads, _| seen << [*payloads.values.flatten, Current.account, I18n.locale] }
      work.shards_count = 1
      ActiveRecord::Base.transaction do
        Current.set(account: 1) { I18n.with_locale(:fr) { work.perform_async_after_commit([{ id: 1, payload: "a" }]) } }
        work.perform_async_after_commit([{ id: 2, payload: "b" }])
        Current.account = 3
        seen << "commit"
      end
      run(work) { seen.size >= 5 }
      answer seen.first(3) + seen.drop(3).sort_by(&:first)
    RUBY
    expect(seen).to eq(["commit", ["push", 1], ["push", 1], ["a", 1, "fr"], ["b", nil, "en"]])
  end

  # Jobs of ActiveJob on SQLite, whose class is AccountJob and whose perform is `body`.
  def active_job(body, persist: true)
    <<~RUBY
      require "active_job/railtie"
      ActiveJob::Base.queue_adapter = :seriatim
      ActiveJob::Base.logger = Logger.new(nil)
      class Current < ActiveSupport::CurrentAttributes
        attribute :account, :user
      end
      ActiveRecord::Base.connection.create_table(:notes)
      GlobalID.app = "test"
      class Note < ActiveRecord::Base
        include GlobalID::Identification
      end
      Seriatim::CurrentAttributes.persist("Current") if #{persist}
      SEEN = []
      class AccountJob < ActiveJob::Base
        ordered_by { 7 }
        discard_on(ActiveJob::DeserializationError) { |job, _| SEEN << [:discarded, *job.arguments] }
        def perform(number)
          #{body}
        end
      end
      JOBS = Seriatim::ActiveJob.queue("default")
    RUBY
  end

  [true, false].each do |persist|
    it "R-JOB-11: runs each job of an id with attributes and a query cache of its own#{", with persist" if persist}" do
      seen = answer(<<~RUBY, database: true)
        #{active_job("SEEN << [number, Current.account, Current.user, Note.count]; Current.user = number; Thread.new { Note.create! }.join", persist: persist)}
        Current.set(account: 1) { AccountJob.perform_later(1) }
        [2, 3].each { |number| AccountJob.perform_later(number) }
        run(JOBS) { SEEN.size >= 3 }
        answer SEEN
      RUBY
      expect(seen).to eq([[1, (1 if persist), nil, 0], [2, nil, nil, 1], [3, nil, nil, 2]])
    end
  end

  it "R-RAILS-10: reads the contexts of an id once for all of its jobs" do
    reads = answer(<<~RUBY, database: true)
      #{active_job("SEEN << Current.account")}
      reads = []
      Seriatim::Batch.prepend(Module.new { define_method(:contexts) { |id| (reads << id) && super(id) } })
      3.times { |number| Current.set(account: number) { AccountJob.perform_later(number) } }
      run(JOBS) { SEEN.size >= 3 }
      answer [SEEN, reads]
    RUBY
    expect(reads).to eq([[0, 1, 2], ["7"]])
  end

  it "R-JOB-11: lets discard_on handle that a model of the attributes is gone" do
    seen = answer(<<~RUBY, database: true)
      #{active_job("SEEN << [:ran, number, Current.user&.id]")}
      users = Array.new(2) { Note.create! }
      users.each_with_index { |user, number| Current.set(user: user) { AccountJob.perform_later(number) } }
      AccountJob.perform_later(2)
      users.first.destroy
      run(JOBS) { SEEN.size >= 3 }
      answer [SEEN, JOBS.metrics[:morgue_length], users.last.id]
    RUBY
    expect(seen).to eq([[["discarded", 0], ["ran", 1, seen.last], ["ran", 2, nil]], 0, seen.last])
  end

  it "R-RAILS-10: gives a run none of the attributes that an earlier one has set" do
    seen = answer(<<~'RUBY')
      class Current < ActiveSupport::CurrentAttributes
        attribute :account, :user
      end
      Seriatim::CurrentAttributes.persist("Current")
      Seriatim.server_middlewares.shift # what Rails does around a run
      Seriatim.threads_per_node = 1
      seen = []
      look = ->(name) { (seen << [name, Current.account, Current.user]) && Current.user = name }
      work = worker("Sets", fold: :list) do |payloads, batch|
        look.call(payloads.keys.first)
        batch.contexts(payloads.keys.first).each { |context| Seriatim::CurrentAttributes.with(context) { look.call("with") } }
      end
      Current.set(account: 1) { work.perform_async([{ id: 1, payload: 1 }, { id: 1, payload: 2 }]) }
      run(work) { seen.size >= 3 }
      work.perform_async([{ id: 2 }])
      Current.set(account: 2) { work.perform_async([{ id: 2, payload: 2 }]) }
      run(work) { seen.size >= 6 }
      answer seen
    RUBY
    expect(seen).to eq([["1", 1, nil], ["with", 1, nil], ["with", 1, nil], ["2", nil, nil], ["with", nil, nil], ["with", 2, nil]])
  end

  it "R-RAILS-10: leaves the attributes of the caller as they are in the test modes" do
    seen = answer(<<~RUBY, database: true)
      #{active_job("SEEN << [number, Current.account, Current.user]; Current.user = number", persist: false)}
      plain = worker("Plain", fold: :list) { |_, _| SEEN << ["plain", Current.account, Current.user]; Current.user = "plain" }
      mine = -> { SEEN << [Current.account, Current.user] }
      look = lambda do
        Current.account = "mine"
        Seriatim.testing!(:inline) { plain.perform_async([{ id: 1 }]) && mine.call && AccountJob.perform_later(1) && mine.call }
        Seriatim.testing!(:fake) do
          plain.perform_async([{ id: 1 }])
          [2, 3].each { |number| AccountJob.perform_later(number) }
          Seriatim::Testing.drain && mine.call
        end
      end
      look.call
      Rails.application.executor.wrap(&look)
      answer SEEN
    RUBY
    once = [["plain", nil, nil], ["mine", nil], [1, nil, nil], ["mine", nil]]
    drained = [["plain", nil, nil], [2, nil, nil], [3, nil, nil], ["mine", nil]]
    expect(seen.first(4)).to eq(once)
    expect(seen[4, 4]).to match_array(drained)
    expect(seen[8, 4]).to eq(once)
    expect(seen[12, 4]).to match_array(drained)
  end
end
