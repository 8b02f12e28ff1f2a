# frozen_string_literal: true

# progress.rb - a bar on a terminal, a line every few seconds elsewhere.
class Progress
  WIDTH = 40

  def initialize(total, output = $stdout)
    @total = total
    @output = output
    @every = output.tty? ? 0.1 : 3 # seconds
    @next = now
  end

  def show(done)
    return if now < @next

    @next = now + @every
    draw(done)
  end

  def finish(done)
    draw(done)
    @output.puts if @output.tty?
  end

  # A line of text that the bar does not overwrite.
  def say(text)
    @output.print "\r\e[K" if @output.tty?
    @output.puts text
    @output.flush
  end

  private

  def draw(done)
    filled = WIDTH * done / @total
    bar = "\r  [#{"#" * filled}#{"." * (WIDTH - filled)}]" if @output.tty?
    @output.print "#{bar} #{done} of #{@total} lines#{"\n" unless bar}"
    @output.flush
  end

  def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)
end
