# frozen_string_literal: true

require_relative "contestant"
require_relative "gems"

# Seriatim for Ruby, and Lowkiq and Sidekiq.
module FromRuby
  PEERS = { "lowkiq" => "Lowkiq (hiredis)", "sidekiq" => "Sidekiq" }.freeze
  OURS = ["ruby", "-I", "#{Contestant::ROOT}/ruby/lib"].freeze
  EXE = "#{Contestant::ROOT}/ruby/exe/seriatim"

  module_function

  def names = ["ruby", *PEERS.keys]
  def install(name) = name == "ruby" || Gems.install(name)
  def contestant(name, redis, folder) = name == "ruby" ? seriatim(redis, folder) : peer(name, redis, folder)

  def seriatim(redis, folder)
    serve = [*OURS, EXE, "-c", Contestant::THREADS.to_s, "-r"]
    Contestant.new("ruby", "Seriatim, Ruby", redis, folder, ours: true, also: Contestant::FEW,
                   commands: { push: [*OURS, app("push"), "seriatim"], pace: [*OURS, app("pace"), "seriatim"],
                               fill: [*OURS, app("push"), "seriatim_backlog", "fill"], both: [*serve, app("seriatim_backlog")],
                               serve: [*serve, app("seriatim")], note: [*serve, app("seriatim_latency")], idle: [*serve, app("idle")] })
  end

  def peer(name, redis, folder)
    serve = ["ruby", "#{Gems::FOLDER}/bin/#{name}", *(name == "sidekiq" ? ["-c", Contestant::THREADS.to_s] : []), "-r"]
    Contestant.new(name, PEERS.fetch(name), redis, folder, environment: Gems::ENVIRONMENT, also: name == "sidekiq" ? [:together] : [],
                   commands: { push: ["ruby", app("push"), name], pace: ["ruby", app("pace"), name],
                               serve: [*serve, app(name)], note: [*serve, app("#{name}_latency")], **(name == "sidekiq" ? sidekiqs(serve) : {}) })
  end

  # Its queues have the same weight.
  def sidekiqs(serve)
    { fill: ["ruby", app("push"), "sidekiq_backlog", "fill"], both: [*serve, app("sidekiq_backlog"), "-q", "default,1", "-q", "backlog,1"] }
  end

  def facts
    gems = %w[lowkiq hiredis redis sidekiq redis-client].to_h { |gem| ["#{gem} (gem)", Gems.version(gem)] }
    { "ruby" => RUBY_DESCRIPTION[/\Aruby \S+/].delete_prefix("ruby "), "seriatim" => version, **gems.compact }
  end

  def version = File.read("#{Contestant::ROOT}/ruby/lib/seriatim/version.rb")[/"(.+)"/, 1]
  def app(name) = "#{Contestant::APPS}/#{name}.rb"
end
