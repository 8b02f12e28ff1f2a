# frozen_string_literal: true

# Splits a stream of Redis' protocol into whole values: requests on the way up, answers on the way down.
class Resp
  def initialize
    @bytes = +"".b
    begin_value
  end

  # @return [Array<String>] the values that end with these bytes
  def take(bytes)
    @bytes << bytes
    values = []
    while value_ends?
      values << @bytes.slice!(0, @at)
      begin_value
    end
    values
  end

  # Bytes of a value that has not ended.
  def rest = @bytes.bytesize

  # The words of a request.
  def self.words(request)
    words = []
    at = request.index("\r\n") + 2
    while at < request.bytesize
      head = request.index("\r\n", at)
      size = request.byteslice(at + 1, head - at - 1).to_i
      words << request.byteslice(head + 2, size)
      at = head + size + 4
    end
    words
  end

  private

  def begin_value
    @at = 0
    @owed = 1
  end

  def value_ends?
    while @owed.positive?
      head = @bytes.index("\r\n", @at) or return false
      number = @bytes.byteslice(@at + 1, head - @at - 1).to_i
      after = head + 2
      case @bytes.getbyte(@at)
      when 36 then after += number + 2 if number >= 0 # $
      when 42 then @owed += number if number.positive? # *
      end
      return false if after > @bytes.bytesize

      @at = after
      @owed -= 1
    end
    true
  end
end
