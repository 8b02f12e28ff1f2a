# frozen_string_literal: true

module Seriatim
  module Outbox
    # The lock of an outbox, which one relay holds. It ends with its process.
    # @api private
    module Lock
      # @param connection [ActiveRecord::ConnectionAdapters::AbstractAdapter]
      def self.for(connection)
        case connection.adapter_name
        when "PostgreSQL" then Advisory.new(connection)
        when "SQLite" then File.new(connection)
        else raise UsageError, "the outbox needs PostgreSQL or SQLite, not #{connection.adapter_name}"
        end
      end

      # An advisory lock of a session of PostgreSQL: it ends with the connection.
      class Advisory
        KEY = Digest::SHA256.digest("seriatim outbox").unpack1("q>")

        # Such locks are of a whole database, which may have an outbox in each of several schemas: the table's number tells them apart.
        def initialize(connection)
          @connection = connection
          @key = "#{KEY} # #{connection.quote(Counter.quoted_table_name)}::regclass::oid::bigint"
        end

        # Asks the server: the connection may have been made anew, without the lock.
        def held?
          @held && @connection.select_value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()").positive?
        end

        def acquire = @held = @connection.select_value("SELECT pg_try_advisory_lock(#{@key})")

        def release
          @connection.select_value("SELECT pg_advisory_unlock(#{@key})") if @held
        rescue ActiveRecord::ActiveRecordError
          nil
        ensure
          @held = false
        end

        # For a connection that failed, and is closed next: the lock ends with it.
        def drop = @held = false
      end

      # A lock of a file beside an SQLite database: the system ends it with the process.
      class File
        def initialize(connection)
          path = connection.select_all("PRAGMA database_list").find { |row| row["name"] == "main" }["file"].to_s
          raise UsageError, "the outbox needs an SQLite database in a file" if path.empty?

          @file = ::File.open("#{path}-seriatim-outbox", ::File::RDWR | ::File::CREAT, 0o600)
        end

        def held? = @held

        def acquire = @held = @file.flock(::File::LOCK_EX | ::File::LOCK_NB) == 0

        def release
          @file.flock(::File::LOCK_UN)
          @held = false
        end

        # As Advisory. The file is locked until it is closed, also against another one that this process opens.
        def drop
          @file.close
          @held = false
        end
      end
    end
  end
end
