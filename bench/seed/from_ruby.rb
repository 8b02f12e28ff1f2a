# frozen_string_literal: true

require_relative "contestant"
require_relative "gems"

# Seriatim for Ruby beside Lowkiq and Sidekiq.
module FromRuby
  PAGE = "seed.md"
  COMMAND = "bench/seed_benchmark"
  TITLE = "The seed's own benchmark"
  PEERS = { "lowkiq" => "Lowkiq (hiredis)", "sidekiq" => "Sidekiq" }.freeze
  DEFAULTS = "every system with its defaults (Lowkiq with its hiredis driver)"
  NOTES = [].freeze
  OURS = ["ruby", "-I", "#{Contestant::ROOT}/ruby/lib"].freeze

  module_function

  def install(peer) = Gems.install(peer)

  def seriatim(redis, folder, name: "seriatim", title: "Seriatim")
    Contestant.new(name, title, redis, folder,
                   app: "seriatim",
                   script: ->(script) { [*OURS, app(script)] },
                   server: ->(script) { [*OURS, "#{Contestant::ROOT}/ruby/exe/seriatim", "-c", Contestant::THREADS.to_s, "-r", app(script)] })
  end

  def peer(name, redis, folder)
    command = { "lowkiq" => ["lowkiq"], "sidekiq" => ["sidekiq", "-c", Contestant::THREADS.to_s] }.fetch(name)
    Contestant.new(name, PEERS.fetch(name), redis, folder,
                   environment: Gems::ENVIRONMENT,
                   script: ->(script) { ["ruby", app(script)] },
                   server: ->(app_name) { ["ruby", "#{Gems::FOLDER}/bin/#{command[0]}", *command.drop(1), "-r", app(app_name)] })
  end

  def facts
    gems = %w[lowkiq hiredis redis sidekiq redis-client].to_h { |gem| ["#{gem} (gem)", Gems.version(gem)] }
    { "ruby" => RUBY_DESCRIPTION[/\Aruby \S+/].delete_prefix("ruby "), "seriatim" => version, **gems.compact }
  end

  def version = File.read("#{Contestant::ROOT}/ruby/lib/seriatim/version.rb")[/"(.+)"/, 1]
  def app(name) = "#{Contestant::APPS}/#{name}.rb"
end
