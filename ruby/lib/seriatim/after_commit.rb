# frozen_string_literal: true

module Seriatim
  # Runs code when the transaction of ActiveRecord in which it was called is committed.
  # @api private
  module AfterCommit
    # What a transaction of ActiveRecord takes for a record with callbacks. A savepoint that is released gives it to the transaction
    # around it; one that is rolled back drops it.
    class Callback
      def initialize(connection, block)
        @connection = connection
        @block = block
      end

      def committed!(should_run_callbacks: true) = (@block.call if should_run_callbacks)
      def add_to_transaction(*) = @connection.add_transaction_record(self)
      def has_transactional_callbacks? = true # rubocop:disable Naming/PredicateName
      def trigger_transactional_callbacks? = true
      def before_committed!(*); end
      def rolledback!(*, **); end
    end
    private_constant :Callback

    module_function

    def call(&block)
      return yield unless defined?(::ActiveRecord::Base)
      return ::ActiveRecord.after_all_transactions_commit(&block) if ::ActiveRecord.respond_to?(:after_all_transactions_commit)

      connection = connection_in_use
      return yield unless connection&.current_transaction&.joinable?

      connection.add_transaction_record(Callback.new(connection, block))
    end

    # The one that this thread holds, or nil.
    def connection_in_use
      ::ActiveRecord::Base.connection if ::ActiveRecord::Base.connection_pool.active_connection?
    rescue ::ActiveRecord::ConnectionNotEstablished
      nil
    end
    private_class_method :connection_in_use
  end
  private_constant :AfterCommit

  # Calls the block after all open ActiveRecord transactions are committed, or at once if none is open. Blocks run in the order of the calls.
  # A rollback, also one of a savepoint around the call, drops the block. Before Rails 7.2 only the transaction of
  # ActiveRecord::Base.connection counts. One with joinable: false counts as none, also inside of another one (requires_new: true): it runs
  # the block at once. If the block raises, the transaction stays committed and the error reaches the caller.
  # @return [nil]
  def self.after_commit(&block)
    raise ArgumentError, "after_commit needs a block" unless block

    AfterCommit.call(&block)
    nil
  end
end
