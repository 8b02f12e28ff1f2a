# frozen_string_literal: true

require "fileutils"

# The systems that we compare with, installed by RubyGems into a folder of the benchmark's own.
module Peers
  ROOT = File.expand_path("../..", __dir__)
  FOLDER = "#{ROOT}/tmp/bench/gems"
  GEMS = { "lowkiq" => ["lowkiq:~> 1.2", "redis:~> 4.8", "hiredis:~> 0.6"], "sidekiq" => ["sidekiq:~> 7.3.0"] }.freeze
  ENVIRONMENT = { "GEM_HOME" => FOLDER, "GEM_PATH" => FOLDER }.freeze

  module_function

  # @return [Boolean] it is there, or could be installed
  def install(name)
    return true if GEMS.fetch(name).all? { |gem| version(gem[/[^:]+/]) }

    FileUtils.mkdir_p(FOLDER)
    return true if system("gem", "install", "--no-document", "--install-dir", FOLDER, *GEMS.fetch(name), out: File::NULL)

    warn "", "!!! #{name} could not be installed: it is SKIPPED, the comparison is incomplete", ""
    false
  end

  # @return [String, nil]
  def version(gem) = Dir["#{FOLDER}/gems/#{gem}-[0-9]*"].map { |path| File.basename(path).delete_prefix("#{gem}-") }.max
end
