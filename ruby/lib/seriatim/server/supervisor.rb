# frozen_string_literal: true

require "seriatim/server/signals"

module Seriatim
  # Runs several server processes by fork: hands signals on to them and starts a crashed one again.
  # @api private
  class Supervisor
    QUICK = 5 # seconds: a process that ends sooner is started again only after a pause
    LONGEST_PAUSE = 30
    GIVE_UP = [2, 3].freeze # exit codes that a new start would only repeat: usage, no Redis
    SECOND_LOOK = 60 # seconds: after so long those codes are a crash as any other

    Child = Struct.new(:place, :started, :quick)

    # @param stop_timeout [Numeric] seconds that a process takes to stop
    # @param signals [Signals] those of the time of loading
    # @yield in each process, with an IO that becomes readable when the supervisor is gone and the process' own Signals; returns the
    #   exit code
    def initialize(count, stop_timeout, signals, &work)
      @count = count
      @stop_timeout = stop_timeout
      @signals = signals
      @work = work
      @children = {}
      @due = {} # place => when to start it
      @quick = Hash.new(0)
      @code = 0
      @quiet = false
    end

    # @return [Integer] exit code
    def run
      @alive, @held = IO.pipe
      @signals.begin([*Signals::SERVER, "CHLD"], at_once: -> { kill_all })
      @count.times { |place| start(place) }
      supervise until @stopping && @children.empty?
      @code
    ensure
      @signals&.close
    end

    private

    def supervise
      act(@signals.wait(patience))
      reap
      start_due
      enforce_deadline
    end

    def patience = @due.empty? && !@stopping ? 60 : 0.2

    def act(signal)
      case signal
      when "TERM", "INT" then stop
      when "TSTP" then quiet
      when "TTIN" then forward(signal)
      when "HUP", "USR1" then Log.info("signal", "#{signal} is ignored")
      end
    end

    # Also those that are started again later.
    def quiet
      @quiet = true
      forward("TSTP")
    end

    def start(place)
      pid = @signals.fork { exit(child) }
      @children[pid] = Child.new(place, monotonic)
      Log.info("start", "process #{place + 1} of #{@count} has pid #{pid}")
    end

    # A process group of its own, so that a terminal's Ctrl-C reaches the supervisor alone, which hands it on.
    def child
      signals = Signals.while_loading
      trap("CHLD", "DEFAULT")
      @signals.hand_over(signals)
      signals.note("TSTP") if @quiet
      @held.close
      Process.setpgid(0, 0)
      code = @work.call(@alive, signals)
      $stdout.flush
      code
    rescue SystemExit => e
      e.status
    end

    def reap
      while (pid, status = Process.wait2(-1, Process::WNOHANG)) && pid
        child = @children.delete(pid) or next
        ended(child, pid, status)
      end
    rescue Errno::ECHILD
      nil
    end

    def ended(child, pid, status)
      return note_code(status) if @stopping

      text = "process #{child.place + 1} (pid #{pid}) ended: #{status.inspect[/pid \d+ (.*)>/, 1]}"
      status.success? ? Log.info("stop", text) : Log.error("crash", text) # the dashboard asked for the one
      return give_up(status.exitstatus) if GIVE_UP.include?(status.exitstatus) && [child, *@children.values].none? { |each| long_lived?(each) }

      @quick[child.place] = monotonic - child.started < QUICK ? @quick[child.place] + 1 : 0
      @due[child.place] = monotonic + [@quick[child.place]**2, LONGEST_PAUSE].min
    end

    # While such a process serves, the others may get what it got: an error of Redis passes, say.
    def long_lived?(child) = monotonic - child.started >= SECOND_LOOK

    # One that TERM itself ended had not begun to serve.
    def note_code(status)
      well = status.success? || status.termsig == Signal.list.fetch("TERM")
      @code = 1 if @code.zero? && !well
    end

    def give_up(code)
      @code = code
      stop
    end

    def start_due
      @due.select { |_, at| monotonic >= at }.each_key do |place|
        @due.delete(place)
        start(place)
      rescue SystemCallError => e # no memory or no process left, perhaps only for now
        raise if @children.empty?

        Log.error("crash", "process #{place + 1} of #{@count} cannot be started: #{Log.describe(e)}")
        @due[place] = monotonic + LONGEST_PAUSE
      end
    end

    def stop
      @stopping = true
      @due.clear
      @deadline = monotonic + @stop_timeout + 5
      forward("TERM")
    end

    def enforce_deadline
      return unless @stopping && monotonic > @deadline

      Log.error("stop", "killing processes that did not stop in #{@stop_timeout + 5} s: #{@children.keys.join(", ")}")
      forward("KILL")
      @deadline = monotonic + 5
    end

    def forward(signal)
      @children.each_key do |pid|
        Process.kill(signal, pid)
      rescue Errno::ESRCH
        nil # not reaped yet
      end
    end

    # In a handler of a signal, which must not log.
    def kill_all
      Native.write_stderr("seriatim: a second signal ended the server at once; killed: #{@children.keys.join(", ")}\n")
      forward("KILL")
      exit!(1)
    end

    def monotonic = Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
  private_constant :Supervisor
end
