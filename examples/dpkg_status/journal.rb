# frozen_string_literal: true

# journal.rb - one file that every process appends to: what was pushed, begun, ended and failed, in one order.
require "json"

module Journal
  # One write call a record, so that the records of several processes never mix.
  def self.write(event, **fields)
    @file ||= File.open(ENV.fetch("DEMO_JOURNAL"), File::WRONLY | File::APPEND | File::CREAT, 0o600)
    @file.syswrite("#{JSON.generate(event: event, **fields)}\n")
  end

  # Reads what was added since the last time.
  class Reader
    def initialize(path)
      @file = File.open(path, File::RDONLY | File::CREAT, 0o600)
      @rest = ""
    end

    def each
      records = (@rest + @file.read).lines
      @rest = records.empty? || records.last.end_with?("\n") ? "" : records.pop
      records.each { |record| yield JSON.parse(record, symbolize_names: true) }
    end
  end
end
