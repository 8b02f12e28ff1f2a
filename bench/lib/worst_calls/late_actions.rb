# frozen_string_literal: true

class WorstCalls
  # Actions on ids that failed, of which payloads came behind the time that the action is bound to: each payload is looked at. ZSCAN gives
  # all of so few ids in one call.
  module LateActions
    CASES = %i[late_payloads late_payloads_of_a_huge_id].freeze

    def late_payloads
      sizes = [["2 KiB", "x" * 1990], ["100 KiB", "y" * 102_400], ["1 MiB", LARGE]]
      sizes.product(%w[list merge], %i[delete_failed kill_failed]).each do |(size, payload), fold, script|
        ids(SOME, payload).each { |id, first| fail_alone(id, first, fold) }
        began = @scripts.run(:perform_now, 0, "suspect 0")[0]
        push(nil, ids(SOME, "late"), fold)
        slices("#{SOME} ids of #{size}, payloads came late, fold #{fold}", script, began, fold)
        clear
      end
    end

    def late_payloads_of_a_huge_id
      late_payloads_of_hot(:delete_failed)
    end
  end
end
