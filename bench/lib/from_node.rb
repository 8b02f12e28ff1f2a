# frozen_string_literal: true

require "fileutils"
require "json"
require_relative "contestant"

# BullMQ, installed by npm into a folder of the benchmark's own; its client is the one that its manual begins with.
module FromNode
  FOLDER = "#{Contestant::ROOT}/tmp/bench/npm"
  PACKAGES = { "bullmq" => "6", "ioredis" => "5" }.freeze
  CONCURRENCY = { "bullmq" => 5, "bullmq50" => 50 }.freeze

  module_function

  def names = CONCURRENCY.keys

  # @return [Boolean] it is there, or could be installed
  def install(_name)
    return true if PACKAGES.keys.all? { |package| version(package) }

    FileUtils.mkdir_p(FOLDER)
    wanted = PACKAGES.map { |package, major| "#{package}@#{major}" }
    !!system("npm", "install", "--no-audit", "--no-fund", "--loglevel", "error", "--prefix", FOLDER, *wanted, out: File::NULL)
  end

  # Only how it processes depends on concurrency.
  def contestant(name, redis, folder)
    concurrency = CONCURRENCY.fetch(name)
    Contestant.new(name, "BullMQ (#{concurrency})", redis, folder, only: (:process if name != names.first),
                   environment: { "NODE_PATH" => "#{FOLDER}/node_modules", "BENCH_CONCURRENCY" => concurrency.to_s },
                   commands: { push: ["node", app("push")], pace: ["node", app("latency"), "push"],
                               both: ["node", app("latency"), "both"], fill: ["node", app("latency"), "fill"],
                               serve: ["node", app("worker")], note: ["node", app("latency")] })
  end

  def facts
    packages = PACKAGES.keys.to_h { |package| ["#{package} (npm)", version(package)] }
    { "node" => (IO.popen(%w[node -v], &:read)[/\d\S*/] if packages.values.any?), **packages }.compact
  end

  # @return [String, nil]
  def version(package)
    path = "#{FOLDER}/node_modules/#{package}/package.json"
    JSON.parse(File.read(path))["version"] if File.exist?(path)
  end

  def app(name) = "#{Contestant::APPS}/bullmq_#{name}.js"
end
