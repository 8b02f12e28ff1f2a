# frozen_string_literal: true

require "fiddle"
require "json"
require_relative "../../support/languages"

# The preloaded parents of Ruby's and Python's servers: a fork is much quicker than a start. This process becomes a subreaper
# (Linux): what they fork is inherited by it, which may then wait for it like for a child of its own.
class ForkServers
  PROGRAMS = {
    "ruby" => [*Language::RUBY, "#{__dir__}/fork_server.rb"],
    "python" => [Language::PYTHON, "#{__dir__}/fork_server.py"]
  }.freeze
  PR_SET_CHILD_SUBREAPER = 36

  def initialize
    @open = {}
    @lock = Mutex.new
  end

  # @param program [String, nil] runs with these arguments; nil: the command of the language
  # @return [Integer] the process id
  def fork(language, variables, arguments, log, program = nil)
    @lock.synchronize do
      io = @open[language] ||= open(language)
      io.puts(JSON.generate([variables, arguments, log, program]))
      Integer(io.gets || raise("the fork server of #{language} has ended"))
    end
  end

  def close
    @open.each_value(&:close)
    @open.clear
  end

  private

  def open(language)
    become_subreaper
    IO.popen([Language::ALL.fetch(language).variables, *PROGRAMS.fetch(language)], "r+")
  end

  def become_subreaper
    prctl = Fiddle::Function.new(Fiddle.dlopen(nil)["prctl"], [Fiddle::TYPE_INT] + [Fiddle::TYPE_LONG] * 4, Fiddle::TYPE_INT)
    prctl.call(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0).zero? or raise "prctl failed"
  end
end
