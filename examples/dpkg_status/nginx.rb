# frozen_string_literal: true

# nginx.rb - an nginx of our own, in the demo's folder, that pushes what is posted to it.
require "etc"
require_relative "languages"
require_relative "post"

class Nginx
  Failed = Class.new(StandardError)

  # @param redis [String] URL
  # @raise [Failed] it is missing, or does not start
  def initialize(folder, redis)
    @log = "#{folder}/nginx.log"
    @socket = "#{folder}/nginx.sock"
    File.write("#{folder}/nginx.conf", configuration)
    ENV["PATH"] += ":/usr/sbin" # which many users' lacks
    command = [{ "REDIS_URL" => redis }, "nginx", "-p", folder, "-c", "nginx.conf", "-e", @log]
    usable = system(*command, "-t", "-q", err: [@log, "a"])
    fail_with "nginx or its Lua module is missing; script/setup installs both" unless usable

    @process = Process.detach(Process.spawn(*command, err: [@log, "a"], pgroup: true))
    Post.new(@socket).push([])
  rescue *Post::FAILURES => e
    kill
    fail_with "nginx does not answer: #{e.message}"
  end

  # Ruby's producers, which post.
  def language = Language.new("ruby through nginx", { "DEMO_NGINX" => @socket }, nil, Language::ALL.fetch("ruby").producer)

  def kill
    Process.kill(:TERM, @process.pid) if @process.alive?
    Process.kill(:KILL, -@process.pid) unless @process.join(5)
    @process.join
  end

  private

  # Without a user, root's nginx would run its workers as nobody, who may not see the folder.
  def configuration
    words = { "lua" => "#{Language::ROOT}/lua", "demo" => __dir__, "socket" => @socket,
              "user" => Process.euid.zero? ? "user #{Etc.getpwuid.name};" : "" }
    File.read("#{__dir__}/nginx.conf").gsub(/@(\w+)@/) { words.fetch($1) }
  end

  def fail_with(message) = raise(Failed, [message, *(File.read(@log) if File.exist?(@log))].join("\n"))
end
