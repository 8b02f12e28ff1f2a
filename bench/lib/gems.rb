# frozen_string_literal: true

require "fileutils"

# The Ruby systems that we compare with, installed by RubyGems into a folder of the benchmark's own.
module Gems
  FOLDER = File.expand_path("../../tmp/bench/gems", __dir__)
  PEERS = { "lowkiq" => ["lowkiq:~> 1.2", "redis:~> 4.8", "hiredis:~> 0.6"], "sidekiq" => ["sidekiq:~> 7.3.0"] }.freeze
  ENVIRONMENT = { "GEM_HOME" => FOLDER, "GEM_PATH" => FOLDER }.freeze

  module_function

  # @return [Boolean] it is there, or could be installed
  def install(peer)
    return true if PEERS.fetch(peer).all? { |gem| version(gem[/[^:]+/]) }

    FileUtils.mkdir_p(FOLDER)
    system("gem", "install", "--no-document", "--install-dir", FOLDER, *PEERS.fetch(peer), out: File::NULL)
  end

  # @return [String, nil]
  def version(gem) = Dir["#{FOLDER}/gems/#{gem}-[0-9]*"].map { |path| File.basename(path).delete_prefix("#{gem}-") }.max
end
