# frozen_string_literal: true

require "json"
require "set"

module Seriatim
  class CLI
    # The verbs of the command for operators (queues, explain, dead and others). They need no application, only Redis and the
    # name of a queue.
    # @api private
    class Operators
      BOOT_SECONDS = 10
      # `paused` counts shards, as elsewhere; all others but `lag` count ids or payloads.
      QUEUE_FIGURES = %i[length lag busy paused parked morgue_length].freeze
      MORGUE = %i[morgue_length].freeze
      RECORDS = %i[length busy parked morgue_length].freeze # of a queue
      QUEUES_USAGE = "queues [list] | queues delete QUEUE [--force QUEUE]"
      IMPORT_USAGE = "import lowkiq QUEUE [--from URL] [--watch]"
      RESHARD_USAGE = "reshard QUEUE N [--no-wait] | reshard QUEUE --status"
      POP_USAGE = "pop QUEUE... [--wait SECONDS] [--ack]"
      SCHEDULED_USAGE = "scheduled list QUEUE [--id ID] | scheduled cancel QUEUE HANDLE... | scheduled reschedule QUEUE HANDLE TIME"
      PAYLOAD_SHOWN = 60 # characters, in a table
      DEAD_USAGE = "dead list|retry|delete QUEUE [ID...] [--error TEXT] [--all]"
      UTC = /\A(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d(?:\.\d{3})?)Z\z/
      DEAD_PAGE = 200 # records a query, whose payloads come with them
      NODE = %i[node host pid state queues busy].freeze
      # Fields that each node reports, and how a table shows them.
      # definitions: node fields, written by script/embed from core/definitions/nodes.json

      NODE_FIELDS = { language: :text, version: :text, threads: :number, since: :time, rss: :bytes, clock_skew: :ahead }.freeze

      # end of definitions
      CELLS = {
        text: ->(value) { value }, number: ->(value) { value },
        bytes: ->(value) { "#{value / 1_048_576} MiB" },
        time: ->(value) { Log.timestamp(Time.at(value)) },
        ahead: ->(value) { format("%+.3f s", value) }
      }.freeze
      FIGURES = %i[length fresh retries lag busy paused parked morgue_length processed failed refused stale].freeze

      def initialize(options)
        @options = options
        Application.load_with_workers(options[:require]) if options[:require]
      end

      # @return [Integer] the exit code
      def call(verb, words)
        code = perform(verb, words)
        code = @unread ? CRASHED : STOPPED unless code.is_a?(Integer)
        code
      end

      private

      def perform(verb, words)
        case verb
        when "push" then push(*exactly(words, 2..3, "push QUEUE ID [PAYLOAD]"))
        when "pop" then pop(exactly(words, 1.., POP_USAGE))
        when "stats" then stats(words)
        when "explain" then explain(*exactly(words, 2..2, "explain QUEUE ID"))
        when "dead" then dead(*exactly(words, 2.., DEAD_USAGE))
        when "scheduled" then scheduled(*exactly(words, 2.., SCHEDULED_USAGE))
        when "pause", "resume" then halt(verb, *exactly(words, 1..2, "#{verb} QUEUE [ID]"))
        when "check" then check(words)
        when "nodes" then exactly(words, 0..0, "nodes") && nodes
        when "delete" then delete(*exactly(words, 2.., "delete QUEUE ID..."))
        when "queues" then queues(*exactly(words, 0..2, QUEUES_USAGE))
        when "reshard" then reshard(*exactly(words, @options[:status] ? 1..1 : 2..2, RESHARD_USAGE))
        when "import" then import(*exactly(words, 2..2, IMPORT_USAGE))
        end
      end

      def exactly(words, range, usage)
        range.cover?(words.size) ? words : raise(UsageError, "usage: seriatim #{usage}")
      end

      # ---- queues

      # Of a worker that the command knows by its queue's name alone: with 0 shards it acts by the settings in Redis, and makes
      # no queue.
      module ByName
        def queue_settings = @by_name ||= super.merge(shards_count: 0).freeze
      end

      # The application's latest worker of that queue, or nil.
      def known(queue)
        Worker.all.reverse_each.find { |worker| worker.name && worker.queue_name == queue } if @options[:require]
      end

      def worker(queue)
        known(queue) || Module.new.extend(Worker).tap { |worker| worker.queue_name = queue }.extend(ByName)
      end

      # A worker whose queue is there.
      def existing(queue, create: false)
        worker = worker(queue)
        shards = layout(worker, 0)
        raise UsageError, "unknown queue #{queue.inspect}; seriatim queues lists them#{", --create makes it" if create}" if shards.zero?

        worker.shards_count = shards
        worker
      end

      # The first call of every verb, so it says soon when there is no Redis.
      def layout(worker, shards)
        settings = worker.queue_settings.merge(shards_count: shards)
        Pool.current.with { |connection| connection.layout(settings, limit: BOOT_SECONDS) }
      end

      # All that have a layout in Redis.
      def all_queues
        layout(worker("-"), 0)
        Pool.current.with { |connection| list_queues(connection) }
      end

      def list_queues(connection)
        connection.queues
      rescue AuthError, RedisError => e
        raise e.class, "cannot list the queues (name them where the verb takes names): #{e.message}"
      end

      def chosen(names) = names.map { |name| existing(name) }

      # What the block gives for each of them. Of all queues, where none is named, those that cannot be read are told of and left out.
      # @return [Array]
      def of_queues(names)
        return chosen(names).map { |worker| yield worker } unless names.empty?

        all_queues.filter_map do |name|
          yield existing(name)
        rescue Error => e
          raise if Failure.no_redis?(e)

          @unread = true
          warn "seriatim: #{Log.printable("queue #{Log.utf8(name).inspect}: #{e.message}")}"
        end
      end

      # ---- verbs

      def push(queue, id, payload = nil)
        job = { id: id, delay: @options[:delay], score: @options[:score] }.compact
        job[:payload] = parse(payload) if payload
        result = pushed_to(queue).perform_async([job])
        counts = %i[added folded refused] + (result.stale.positive? ? [:stale] : [])
        puts counts.map { |name| "#{name} #{result[name]}" }.join(", ")
      end

      # The application's worker, whose push makes its queue; or one of a queue that is there, or that --create makes.
      def pushed_to(queue)
        known = known(queue)
        check_shards(known)
        return known.tap { layout(known, known.shards_count) } if known

        layout(worker(queue), @options.fetch(:shards, worker(queue).shards_count)) if @options[:create]
        existing(queue, create: true)
      end

      # With 0 the core only looks and makes no queue; a push that makes none, or that of the application's worker, would ignore the number.
      def check_shards(known)
        shards = @options[:shards] or return
        Validate.integer("--shards", shards, 1..4096)
        raise UsageError, "--shards needs --create; seriatim reshard gives a queue another number of shards" unless @options[:create]
        raise UsageError, "--shards #{shards}: the application's worker has shards_count #{known.shards_count}" if known && known.shards_count != shards
      end

      def parse(payload)
        value = Native.load(payload)
        Native.check_json(payload, "payload") # the value may not tell: an integer beyond int64 reads as a Float
        value
      rescue Undecodable => e
        raise UsageError, "the payload is not valid JSON (#{e.message}); a text needs its quotes: '\"paid\"'"
      end

      # Without --ack the id is handed back.
      def pop(names)
        delivery = Seriatim.pop(popped_from(names), **@options.slice(:wait))
        unless delivery
          @options[:json] ? print_json(nil) : say("no id is due")
          return CRASHED
        end

        show_delivery(delivery)
        @options[:ack] ? delivery.ack : delivery.release
        STOPPED
      end

      # Those of the application, or made for the names of queues that are there. What the latter hold and is not JSON is a text, so that no
      # pop of the command sends it to the morgue.
      def popped_from(names)
        chosen(names).each do |worker|
          worker.codec = [JSON.method(:generate), method(:json_or_text)] unless worker.equal?(known(worker.queue_name))
        end
      end

      def json_or_text(bytes)
        Native.load(bytes)
      rescue Undecodable
        bytes
      end

      def show_delivery(delivery)
        print_delivery(delivery)
        $stdout.flush
      rescue Exception => e # rubocop:disable Lint/RescueException
        delivery.release
        raise unless e.is_a?(StandardError) || e.is_a?(SystemStackError)

        why = " (#{Log.brief(e)})" unless e.is_a?(SystemCallError)
        raise Error, "what was popped cannot be printed#{why}; it was handed back"
      end

      def print_delivery(delivery)
        names = %i[queue id fence deliveries payloads scores contexts]
        return print_json(names.to_h { |name| [name, delivery.public_send(name)] }) if @options[:json]

        queue, id, fence, count, payloads = delivery.then { |d| [Log.utf8(d.queue).inspect, Log.utf8(d.id).inspect, d.fence, d.deliveries, d.payloads] }
        say("queue #{queue}, id #{id}, fence #{fence}, delivery #{count}: #{payloads.size} payload#{"s" if payloads.size > 1}")
        payloads.each { |payload| print_json(payload) }
      end

      def import(system, queue)
        raise UsageError, "usage: seriatim #{IMPORT_USAGE}" unless system == "lowkiq"

        require "seriatim/cli/import_command"
        ImportCommand.new(pushed_to(queue), queue, known(queue), @options).run
      end

      def stats(names)
        figures = of_queues(names) { |worker| { name: worker.queue_name, **worker.metrics } }
        return print_json(queues: figures, nodes: Metrics.nodes) if @options[:json]

        print_table([[:queue, *FIGURES], *figures.map { |f| [f[:name], *f.values_at(*FIGURES)] }])
      end

      def explain(queue, id)
        answer = existing(queue).queries.explain(id)
        return print_json(answer) if @options[:json]

        say(answer[:text])
        { job: "its last error", behind: "the error of what waits behind the run", dead: "the error of its death" }.each do |part, words|
          error = answer[part] && answer[part][:error]
          say("#{words}: #{first_line(error)}") if error
        end
        answer[:history].each { |entry| say([entry[:text], first_line(entry[:error].to_s)].reject(&:empty?).join(": ")) }
      end

      # Waiting and parked ids.
      def delete(queue, *ids) = changed("deleted", existing(queue).actions.delete(ids), ids, "was not found")

      # Says how many were changed, and of ids that were named how many were not; of ids or handles of which none was, that.
      def changed(word, count, named, otherwise, kind: "id")
        return changed_some(word, count, named.uniq.size, kind == "id" ? otherwise : nil) if count.positive? || named.empty?

        say(named.size == 1 ? "the #{kind} #{Log.utf8(named.first).inspect} #{otherwise}" : "each of the #{named.size} #{kind}s #{otherwise}")
        CRASHED
      end

      # @param otherwise [String, nil] what is said of the others; nil: nothing
      def changed_some(word, count, of, otherwise)
        left = otherwise ? of - count : 0
        return say_done("#{word} #{count}") unless left.positive?

        say("#{word} #{count}; #{left} of #{of} ids #{left == 1 ? otherwise : otherwise.sub(/\Ais/, "are").sub(/\Awas/, "were")}")
        CRASHED
      end

      def say_done(text)
        say(text)
        STOPPED
      end

      # What each node serves is read off the owners of the shards.
      def nodes
        queues = of_queues([]) { |worker| [Log.utf8(worker.queue_name), worker.metrics[:shards]] }
        rows = Metrics.nodes.map { |node| node_row(node, queues) }
        return print_json(nodes: rows) if @options[:json]

        print_table([[*NODE, *NODE_FIELDS.keys], *rows.map { |row| node_cells(row) }])
      end

      def node_row(node, queues)
        host, pid = Log.utf8(node[:description]).match(/\A(.*) pid (\d+) .* seriatim /m)&.captures
        owned = queues.to_h { |name, shards| [name, shards.select { |shard| shard[:owner] == node[:name] }] }.reject { |_, shards| shards.empty? }
        { node: node[:name], host: host, pid: pid&.to_i, state: node[:state], queues: owned.keys,
          busy: owned.values.flatten.sum { |shard| shard[:busy] }, **node.slice(*NODE_FIELDS.keys) }
      end

      def node_cells(row)
        reported = NODE_FIELDS.to_h { |name, shown| [name, row[name] && CELLS.fetch(shown).call(row[name])] }
        row.merge(queues: row[:queues].join(","), **reported).values.map { |value| value.nil? || value == "" ? "-" : value }
      end

      def queues(verb = "list", queue = nil)
        raise UsageError, "usage: seriatim #{QUEUES_USAGE}" unless (verb == "list" && queue.nil?) || (verb == "delete" && queue)
        return delete_queue(queue) if verb == "delete"

        figures = of_queues([]) { |worker| { queue: worker.queue_name, shards: worker.shards_count, **worker.metrics.slice(*QUEUE_FIGURES) } }
        return print_json(queues: figures) if @options[:json]

        print_table([[:queue, :shards, *QUEUE_FIGURES], *figures.map(&:values)])
      end

      def dead(action, queue, *ids)
        worker = existing(queue)
        case action
        when "list" then dead_list(worker, ids)
        when "retry" then changed("queued up", dead_do(worker, ids, :morgue_queue_up), ids, not_dead)
        when "delete" then changed("deleted", dead_do(worker, ids, :morgue_delete), ids, not_dead)
        else raise UsageError, "usage: seriatim #{DEAD_USAGE}"
        end
      end

      def dead_list(worker, ids)
        records = dead_records(worker.queries, ids, Validate.integer("limit", @options.fetch(:limit, 100), 1..100_000))
        return print_json(records) if @options[:json]

        print_table([%i[id died payloads error],
                     *records.map { |r| [r[:id], Log.timestamp(Time.at(r[:updated_at])), r[:payloads_count], first_line(r[:error])] }])
      end

      # All of the named ids, unless the limit was given.
      def dead_records(queries, ids, limit)
        return with_error(queries.morgue_fetch(ids)).first(@options.key?(:limit) ? limit : ids.size) unless ids.empty?
        return queries.morgue_range_by_updated_at("-inf", "+inf", limit: limit) unless @options[:error]

        pages_with_error(queries).each_with_object([]) do |page, found|
          found.concat(page)
          break found.first(limit) if found.size >= limit
        end
      end

      # Of the whole morgue as it is now, by the time of death: ids that die meanwhile come behind its end, also those that were retried.
      # Each page begins at the last time of the one before, which many ids may share, without the ids of that time that are known.
      # @return [Enumerator<Array<Hash>>]
      def pages_with_error(queries)
        Enumerator.new do |pages|
          from, known = "-inf", Set.new
          to = queries.morgue_rev_range_by_updated_at("+inf", "-inf", limit: 1).first
          while to
            page = queries.morgue_range_by_updated_at(from, to[:updated_at], limit: DEAD_PAGE + known.size).reject { |record| known.include?(record[:id]) }
            break if page.empty?

            known = Set.new unless page.last[:updated_at] == from
            from = page.last[:updated_at]
            known.merge(page.filter_map { |record| record[:id] if record[:updated_at] == from })
            pages << with_error(page)
          end
        end
      end

      # Those whose error contains the text of --error, byte for byte, because the locale need not be one of UTF-8.
      def with_error(records) = @options[:error] ? records.select { |r| Log.utf8(r[:error].to_s).b.include?(@options[:error].b) } : records

      def first_line(error) = Log.utf8(error.to_s)[/\A[^\r\n]*/]

      def dead_do(worker, ids, action)
        error = @options[:error]
        raise UsageError, "--error must be a text that is not empty, not \"\"" if error == ""
        raise UsageError, "name the ids, or --all, or --error TEXT" if ids.empty? && !error && !@options[:all]
        return dead_do_by_error(worker, ids, action) if error
        return worker.actions.public_send(action, ids) unless ids.empty?

        show_progress("dead #{action == :morgue_queue_up ? "retry" : "delete"} #{worker.queue_name}", worker, MORGUE)
        worker.actions.public_send(:"#{action}_all_jobs")
      end

      # On those whose error contains the text of --error; of the named ids, if there are any.
      def dead_do_by_error(worker, ids, action)
        pages = ids.empty? ? pages_with_error(worker.queries) : [with_error(worker.queries.morgue_fetch(ids))]
        pages.sum { |page| page.empty? ? 0 : worker.actions.public_send(action, page.map { |record| record[:id] }) }
      end

      def not_dead = @options[:error] ? "is not dead with this error" : "is not dead"

      # Payloads whose deliver_at has not come.
      def scheduled(action, queue, *words)
        fits = { "list" => 0..0, "cancel" => 1.., "reschedule" => 2..2 }[action]&.cover?(words.size)
        raise UsageError, "usage: seriatim #{SCHEDULED_USAGE}" unless fits
        return scheduled_list(existing(queue).queries) if action == "list"

        at = action == "reschedule" ? [unix_time(words.pop)] : []
        actions = existing(queue).actions
        count = words.count { |handle| actions.public_send(action, handle, *at) }
        done = action == "cancel" ? "cancelled" : "rescheduled"
        changed(done, count, words, "names no payload that can be #{done}", kind: "handle")
      end

      def scheduled_list(queries)
        rows = queries.range_by_deliver_at("-inf", "+inf", limit: @options.fetch(:limit, 100), id: @options[:id])
        return print_json(rows) if @options[:json]

        print_table([%i[deliver_at pushed_at id handle payload],
                     *rows.map { |row| [*row.values_at(:deliver_at, :pushed_at).map { |time| Log.timestamp(Time.at(time)) }, row[:id], row[:handle], brief(row[:payload])] }])
      end

      # The beginning of a payload, as JSON.
      def brief(payload)
        text = json(payload)
        text.size > PAYLOAD_SHOWN ? "#{text[0, PAYLOAD_SHOWN]}..." : text
      end

      # @param text [String] Unix seconds, +SECONDS from now, or UTC as Log.timestamp writes it, also without milliseconds
      def unix_time(text)
        return (text.start_with?("+") ? Time.now.to_f : 0) + text.to_f if text.match?(/\A\+?\d+(\.\d+)?\z/)

        parts = UTC.match(text)&.captures
        time = parts && Time.utc(*parts.first(5), parts.last.to_r)
        return time.to_f if time && Log.timestamp(time)[0, 19] == text[0, 19] # there is no 30 February

        refuse_time(text)
      rescue ArgumentError
        refuse_time(text)
      end

      def refuse_time(text)
        raise UsageError, "TIME must be Unix seconds, +SECONDS from now or UTC such as 2026-11-24T08:00:00Z, not #{Log.utf8(text).inspect}"
      end

      # The next action on all ids, or the next check, says on a terminal how far it is: by the connection that the pool lends next,
      # which is this one, because the command has one thread.
      # @param worker [Worker, nil] of whose figures these are the total; nil: it is not known
      def show_progress(what, worker = nil, figures = [])
        return if @options[:json] || !Pool.current.with { |connection| connection.progress(what, nil) } || worker.nil?

        total = worker.metrics.values_at(*figures).sum
        Pool.current.with { |connection| connection.progress(what, total) }
      rescue RedisError
        nil # a queue with wrong keys has no figures, and is checked all the same
      end

      def halt(verb, queue, id = nil)
        actions = existing(queue).actions
        return puts("#{verb}d #{actions.public_send(verb)} shards") unless id

        verb, word, otherwise = verb == "pause" ? [:park, "parked", "was not found"] : [:unpark, "unparked", "is not parked"]
        changed(word, actions.public_send(verb, [id]), [id], otherwise)
      end

      def delete_queue(queue)
        raise UsageError, "--force must name the queue once more" unless [nil, queue].include?(@options[:force])

        existing(queue).actions.delete_queue(force: @options.key?(:force))
        puts "deleted the queue #{Log.printable(queue).inspect}"
      end

      def reshard(queue, shards = nil)
        unless shards.nil? || shards.b.match?(/\A\d{1,9}\z/)
          raise UsageError, "shards must be a whole number from 1 to 4096, not #{Log.utf8(shards).inspect}"
        end

        require "seriatim/cli/reshard_command"
        ReshardCommand.new(existing(queue), @options).run(shards&.to_i)
      end

      def check(names)
        repair = @options[:repair] || false
        strays = names.empty? ? check_namespace(repair) : []
        results = checkable(names, strays).map { |worker| check_queue(worker, repair) }
        @options[:json] ? print_json(queues: results, namespace: strays) : say_findings(results, strays)
        (strays + results.flat_map { |result| result[:findings] }).all? { |finding| finding[:repaired] } ? STOPPED : CRASHED
      end

      def check_queue(worker, repair)
        show_progress("check #{worker.queue_name}", worker, RECORDS)
        { name: worker.queue_name, **worker.actions.check(repair: repair) }
      end

      # What lies below the namespace and is no queue's, and queues whose layout is not right.
      def check_namespace(repair)
        layout(worker("-"), 0)
        show_progress("check")
        Pool.current.with { |connection| connection.check(nil, repair) }.last
      end

      # A layout that cannot be read is a finding already.
      def checkable(names, strays)
        return chosen(names) unless names.empty?

        broken = strays.filter_map { |finding| finding[:id].b if finding[:kind] == "layout" }
        chosen(all_queues.reject { |name| broken.include?(name.b) })
      end

      def say_findings(results, strays)
        strays.each { |finding| say("namespace #{finding_line(finding)}") }
        results.each do |result|
          result[:findings].each { |finding| say("#{Log.utf8(result[:name])}/#{finding[:shard]} #{finding_line(finding)}") }
          say("#{Log.utf8(result[:name])}: #{result[:looked_at]} records, #{result[:findings].size} findings")
        end
      end

      def finding_line(finding)
        id = " id #{finding[:id].inspect}" if finding[:id]
        "#{finding[:kind]}#{id}: #{Log.utf8(finding[:detail])}#{" (repaired)" if finding[:repaired]}"
      end

      # ---- output

      # One line, whatever an id or an error holds.
      def say(text) = puts(Log.printable(text))

      # What JSON itself leaves as it is and a terminal would obey is escaped, which is the same JSON.
      def print_json(value) = say(json(value))

      # A payload may be deeper than JSON.generate allows by itself.
      def json(value) = JSON.generate(readable(value), max_nesting: 0)

      # JSON has no bytes: what is not UTF-8 is shown with question marks.
      def readable(value)
        case value
        when Hash then value.to_h { |key, item| [key.is_a?(String) ? Log.utf8(key) : key, readable(item)] }
        when Array then value.map { |item| readable(item) }
        when String then Log.utf8(value)
        when Float then value.finite? ? value : nil
        else value
        end
      end

      def print_table(rows)
        texts = rows.map { |row| row.map { |cell| cell.is_a?(Float) ? format("%.1f", cell) : Log.printable(cell.to_s) } }
        widths = texts.transpose.map { |column| column.map(&:size).max }
        texts.each { |row| puts row.zip(widths).map { |text, width| text.ljust(width) }.join("  ").rstrip }
      end
    end
    private_constant :Operators
  end
end
