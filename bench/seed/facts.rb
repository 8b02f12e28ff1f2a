# frozen_string_literal: true

require "etc"
require_relative "peers"

# What the numbers hang on.
module Facts
  module_function

  def all(redis)
    { "processor" => processor, "cores" => Etc.nprocessors, "system" => system_name, "kernel" => Etc.uname[:release][/\A\d+\.\d+/],
      "ruby" => RUBY_DESCRIPTION[/\Aruby \S+/].delete_prefix("ruby "), "redis" => redis.version, "seriatim" => version,
      **peers }
  end

  def peers
    %w[lowkiq hiredis redis sidekiq redis-client].to_h { |gem| ["#{gem} (gem)", Peers.version(gem)] }.compact
  end

  def processor = File.read("/proc/cpuinfo")[/^model name\s*:\s*(.+)/, 1] || Etc.uname[:machine]
  def system_name = File.read("/etc/os-release")[/^PRETTY_NAME="(.+)"/, 1]
  def version = File.read("#{Peers::ROOT}/ruby/lib/seriatim/version.rb")[/"(.+)"/, 1]
end
