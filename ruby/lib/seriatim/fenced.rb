# frozen_string_literal: true

module Seriatim
  # Guards writes to a database: an outdated run of a job cannot make them. `rails g seriatim:fence MODEL` adds the column.
  module Fenced
    COLUMN = :seriatim_fence
    private_constant :COLUMN

    # Locks the record, notes the fence in it and yields it, freshly read, all in one transaction. A run that has lost its lease while it
    # still works has a smaller fence than the run that came after it: its block is not called.
    #
    #   Seriatim.fenced(order, batch.fence(id)) { |record| record.update!(state: "paid") }
    #
    # @param record [ActiveRecord::Base] a saved record without unsaved changes
    # @param fence [Integer] `batch.fence(id)`; one run may use it several times
    # @param column [Symbol] of the record's table: a bigint, NULL at first
    # @yield [ActiveRecord::Base] the record, as it is in the database now
    # @return what the block returns
    # @raise [Stale] a later run has written already; nothing was changed
    # @raise [Invalid] the record has unsaved changes, or the fence is no Integer above 0
    # @raise [ActiveRecord::RecordNotFound] the record no longer exists
    def fenced(record, fence, column: COLUMN)
      Validate.refuse("fence", "an Integer above 0", fence) unless fence.is_a?(Integer) && fence.positive?
      raise Invalid, "#{record.class} has unsaved changes, which would be lost: save it or pass another object" if record.changed?

      record.class.transaction(requires_new: true) do
        take_fence(record, fence, column)
        yield record.reload
      end
    end

    private

    # The UPDATE holds the lock of the row until the transaction ends.
    def take_fence(record, fence, column)
      rows = record.class.unscoped.where(record.class.primary_key => [record.id]) # a list, which a key of several columns needs
      fences = rows.model.arel_table[column]
      return if rows.where(fences.eq(nil).or(fences.lteq(fence))).update_all(column => fence) == 1

      later = rows.pick(column) or raise ActiveRecord::RecordNotFound, "#{record.class} #{record.id.inspect} does not exist"
      raise Stale, "#{record.class} #{record.id.inspect} was written under the fence #{later}, which is newer than #{fence}"
    end
  end
end
