# frozen_string_literal: true

module Seriatim
  # The bytes that Redis keeps of an error.
  # @api private
  module StoredError
    BYTES = 65_536 # the core keeps no more of a stored error: cutting what dump_error made would spoil it for load_error

    module_function

    # @param error [Exception, String] what failed the id
    # @param queue [String] its name, for the log
    # @param caught [Class] the exceptions of format_error and dump_error that become a line of the log; others are raised
    # @return [String]
    def of(error, queue, caught: StandardError)
      text = error.is_a?(Exception) ? formatted(error, queue, caught) : error
      dumped(text || Log.describe(error), queue, caught: caught)
    end

    # Where dump_error fails, the bytes of the first line and of the reason.
    def dumped(text, queue, caught: StandardError)
      text = text.byteslice(0, BYTES).scrub("") if text.bytesize > BYTES
      stored, reason = dump_error(text, caught)
      return stored unless reason

      Log.error("hook", reason, q: queue)
      note = "#{Log.brief(text)}\n(#{reason}; only the first line of this error is stored)"
      dump_error(note, caught).first || note
    end

    # The text of what is stored. What load_error cannot read stays as it is stored.
    def loaded(error)
      Seriatim.load_error.call(error)
    rescue StandardError, ScriptError, SystemStackError
      error
    end

    def formatted(error, queue, caught)
      unmasked { Seriatim.format_error.call(error).to_str }
    rescue caught => e
      Log.error("hook", "format_error raised #{Log.describe(e)}", q: queue)
      nil
    end

    # @return [Array] the bytes, or nil and the reason
    def dump_error(text, caught)
      dumped = unmasked { Seriatim.dump_error.call(text).to_str }
      return [dumped, nil] if dumped.bytesize <= BYTES

      [nil, "dump_error gave #{dumped.bytesize} bytes, of which #{BYTES} may be stored"]
    rescue caught => e
      [nil, "dump_error raised #{Log.brief(e)}"]
    end

    def unmasked(&code) = Thread.handle_interrupt(Interrupts::UNMASKED, &code)
  end
  private_constant :StoredError
end
