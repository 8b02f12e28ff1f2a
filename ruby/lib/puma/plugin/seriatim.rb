# frozen_string_literal: true

require "puma/plugin"
require "rbconfig"

module Puma
  class DSL
    # The arguments of the command `seriatim` that `plugin :seriatim` starts. A Rails application needs none.
    #
    #   plugin :seriatim
    #   seriatim_arguments "-r", "./app.rb", "-c", "10"
    def seriatim_arguments(*words) = @options[:seriatim_arguments] = words.map(&:to_s)
  end
end

# Runs the command `seriatim` beside Puma 5 to 8, in single and in cluster mode: it starts when Puma has booted, and stops and restarts
# with it, also in a phased restart. If it ends by an error, Puma stops with the exit code 1. If Puma is killed, it stops.
Puma::Plugin.create do
  def start(launcher)
    @launcher = launcher
    @master = Process.pid
    reap_predecessor
    on(:after_booted, :on_booted) { run_server }
    on(:after_stopped, :on_stopped) { terminate }
    on(:before_restart, :on_restart) { hand_over }
    at_exit { leave if Process.pid == @master }
  end

  private

  # Puma 7 has renamed its events. Puma 5.0 has only the first; the end of standard input stops the server there.
  def on(name, former_name, &block)
    known = [name, former_name].find { |event| @launcher.events.respond_to?(event) }
    @launcher.events.public_send(known, &block) if known
  end

  def run_server
    return if @pid && !@leaving # Puma 5.0 tells of a phased restart only that it has booted

    @leaving = false
    library = File.expand_path("../..", __dir__)
    command = [RbConfig.ruby, "-I", library, "-r", "seriatim/server/parent_watch", File.expand_path("../exe/seriatim", library), *arguments]
    theirs, @input = IO.pipe
    # A process group of its own: a terminal's Ctrl-C reaches Puma alone, which hands it on.
    @pid = Process.spawn(*command, in: theirs, pgroup: true, chdir: @launcher.restart_dir)
    theirs.close
    @watcher = Thread.new(@pid, @input) { |pid, input| watch(pid, input) }
  end

  def arguments = @launcher.options[:seriatim_arguments] || []

  # Also in the handler of a signal, which must not log. This is no TERM: Puma calls it twice, a service manager may have sent one, and
  # a second TERM ends the server at once.
  def terminate
    @leaving = true
    @input&.write_nonblock("\n", exception: false)
  rescue IOError, Errno::EPIPE
    nil # it has ended
  end

  # Puma goes on at once; the old server finishes its jobs meanwhile. After a restart it is a child of the new Puma, which knows nothing of it.
  def hand_over
    ENV["SERIATIM_PUMA_PID"] = @pid.to_s if @pid
    terminate
  end

  def reap_predecessor = ENV.delete("SERIATIM_PUMA_PID")&.then { |pid| Process.detach(pid.to_i) }

  def leave
    terminate
    @watcher&.join
    exit 1 if @failed
  end

  def watch(pid, input)
    _, status = Process.wait2(pid)
  rescue Errno::ECHILD
    status = nil # a cluster waits for all of its children
  ensure
    input.close
    ended(pid, status) if pid == @pid
  end

  def ended(pid, status)
    @pid = nil
    return if @leaving
    return restart(pid) if status&.success?

    @failed = true
    log "! seriatim (pid #{pid}) ended#{" with #{status.inspect[/pid \d+ (.*)>/, 1]}" if status}: Puma stops, too"
    @launcher.stop
  end

  # An operator has stopped the node in the dashboard.
  def restart(pid)
    log "- seriatim (pid #{pid}) was stopped; it is started again"
    run_server
  end

  def log(text) = (@launcher.respond_to?(:log_writer) ? @launcher.log_writer : @launcher.events).log(text)
end
