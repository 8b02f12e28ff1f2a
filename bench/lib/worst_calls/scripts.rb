# frozen_string_literal: true

require "socket"
require "tmpdir"

# The scripts as the core sends them, on a shard of a queue.
class Scripts
  ROOT = File.expand_path("../../..", __dir__)
  PREFIX = "seriatim:{Q/0}:"
  OTHER_PREFIX = "seriatim:{Q/1}:"
  KINDS = %w[state -].freeze

  # Of the layout, which calls name.
  attr_accessor :generation

  def initialize(port)
    @socket = TCPSocket.new("127.0.0.1", port)
    @sha = {}
    Dir.mktmpdir do |folder|
      system("#{ROOT}/script/embed", "--expand", folder, out: File::NULL) || raise("script/embed failed")
      Dir["#{folder}/*.lua"].each { |path| @sha[File.basename(path, ".lua")] = File.read(path) }
    end
    @sha.transform_values! { |text| call("SCRIPT", "LOAD", text) rescue nil }
    @sequence = 0
    @generation = 1
  end

  def call(*words)
    @socket.write("*#{words.size}\r\n", *words.map { |word| "$#{word.to_s.bytesize}\r\n#{word}\r\n" })
    answer
  end

  # @param as [Integer] the generation of the layout
  # @param on [String] what the keys of the shard begin with
  def run(name, *arguments, more: [], as: @generation, on: PREFIX)
    call("EVALSHA", @sha.fetch(name.to_s), KINDS.size + more.size, *KINDS.map { |kind| on + kind }, *more, as, *arguments)
  end

  # A script that belongs to no shard.
  def evaluate(name, keys, *arguments) = call("EVALSHA", @sha.fetch(name.to_s), keys.size, *keys, *arguments)

  def next_sequence = @sequence += 1

  # All jobs, in as many calls as the script wants, each of at most 1,000 jobs and 512 KiB or a larger job, as the core sends them.
  # @yield each call's arguments, to measure it
  def push(jobs, fold = "list")
    until jobs.empty?
      bytes = 0
      chunk = jobs.first(1000).take_while { |job| (bytes += job.sum(&:bytesize)) <= 524_288 }
      arguments = [next_sequence, fold, "keep", 2, 0, *(chunk.empty? ? jobs.first : chunk.flatten)]
      said = block_given? ? yield(arguments) : push_call(arguments)
      jobs = jobs.drop(said.to_i)
    end
  end

  def push_call(arguments) = run(:push, *arguments, more: ["#{PREFIX}push:c"])

  def cpu_ms = call("INFO", "cpu").scan(/^used_cpu_(?:user|sys)_main_thread:(\S+)/).sum { |(seconds)| seconds.to_f } * 1000

  private

  def answer
    line = @socket.gets.chomp
    case line[0]
    when "-" then raise line
    when "$" then line == "$-1" ? nil : @socket.read(line[1..].to_i + 2).byteslice(0..-3)
    when "*" then Array.new(line[1..].to_i) { answer }
    when ":" then line[1..].to_i
    else line[1..]
    end
  end
end
