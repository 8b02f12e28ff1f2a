# frozen_string_literal: true

# What happened, one line an event, by all processes into one file: its order is the truth. Each line is one write to a
# file opened for appending, so lines of two processes never mix. SIGKILL can cut a write where a page of the file ends:
# so each begins with its own newline, and what lacks the full stop at its end never happened.
#
#   pushed QUEUE ID NUMBERS                         the push returned
#   start  PID QUEUE ID FENCE RETRY_COUNT NUMBERS TIME   perform begins
#   end    PID QUEUE ID FENCE TIME                  perform ended well
#   fail   PID QUEUE ID FENCE TIME                  perform raises
#   task, did, confirmed PID QUEUE ID FENCE NUMBER TIME   a payload that is done by itself begins, has ended, has a confirmed checkpoint
#   snooze PID QUEUE ID FENCE TIME                  perform ends with batch.snooze
#   popper PID SECONDS                              the runs of this process, from now on, are of a popper, with this time to run
#   reported, refused PID QUEUE ID FENCE TIME       Redis has accepted, or refused, what the popper said of a run, behind its `end` or `fail`
#   killed PID, frozen PID, thawed PID NOW          written by the driver; fences of claims before NOW are less
#   failover 0 NOW                                  written by the driver: a master is dead, or frozen
#   heard  QUEUE SHARD FENCE                        behind it: its replica knows of no claim of this shard with a greater fence
#   lapsed PID TIME                                 written by the driver: its heartbeat had ended, or may have
#
# NUMBERS are the payloads' in their order, "1-3,7"; TIME is of the machine's monotonic clock.
class Journal
  Line = Struct.new(:kind, :pid, :queue, :id, :fence, :retry_count, :numbers, :time, keyword_init: true)

  def self.now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

  attr_reader :path

  def initialize(path)
    @path = path
    @file = File.open(path, File::WRONLY | File::APPEND | File::CREAT)
    @lock = Mutex.new
    @lines = []
    @read = 0 # bytes of the file that @lines is made from
  end

  def write(*words)
    @file.syswrite("\n#{words.join(" ")} .")
  end

  def pushed(queue, id, numbers)
    write(:pushed, queue, id, pack(numbers))
  end

  # The same numbers to each of these ids.
  def pushed_to(queue, ids, numbers)
    text = pack(numbers)
    @file.syswrite(ids.map { |id| "\npushed #{queue} #{id} #{text} ." }.join)
  end

  def start(queue, id, fence, retry_count, numbers)
    write(:start, Process.pid, queue, id, fence, retry_count, pack(numbers), Journal.now)
  end

  def task(kind, queue, id, fence, number)
    write(kind, Process.pid, queue, id, fence, number, Journal.now)
  end

  def finish(kind, queue, id, fence)
    write(kind, Process.pid, queue, id, fence, Journal.now)
  end

  # @return [Array<Line>] so far. Only what is new is read: those who wait ask often.
  def lines
    @lock.synchronize do
      text = File.binread(path, nil, @read)
      # The last line may still be written.
      text = text[0, text.rindex("\n") || 0] unless text.end_with?(" .")
      @read += text.bytesize
      text.force_encoding(Encoding::UTF_8).each_line(chomp: true) { |words| @lines << line(words.split) if words.end_with?(" .") }
      @lines.dup
    end
  end

  # @return [Array<Line>] the last ones
  def tail(bytes = 65_536)
    text = File.open(path) { |file| file.seek([file.size - bytes, 0].max) && file.read }
    text.lines(chomp: true).filter_map { |words| line(words.split) if words.match?(/\A[a-z].* \.\z/) }
  end

  # Does a run of this process, which stands still, lack its end? Runs that began long ago are not looked at.
  def running?(pid)
    runs, others = tail.select { |line| line.pid == pid && line.id }.partition { |line| line.kind == "start" }
    over = others.select { |line| %w[end fail snooze].include?(line.kind) }.map { |line| [line.id, line.fence] }
    runs.any? { |run| !over.include?([run.id, run.fence]) }
  end

  # @return [Array<Line>]
  def starts(queue = nil, id = nil)
    lines.select { |l| l.kind == "start" && (queue.nil? || l.queue == queue) && (id.nil? || l.id == id.to_s) }
  end

  # @return [Array<Line>]
  def ends(queue = nil, id = nil)
    lines.select { |l| l.kind == "end" && (queue.nil? || l.queue == queue) && (id.nil? || l.id == id.to_s) }
  end

  private

  def line(words)
    kind, *rest = words
    case kind
    when "pushed" then Line.new(kind: kind, queue: rest[0], id: rest[1], numbers: unpack(rest[2]))
    when "start"
      Line.new(kind: kind, pid: rest[0].to_i, queue: rest[1], id: rest[2], fence: rest[3].to_i, retry_count: rest[4].to_i,
               numbers: unpack(rest[5]), time: rest[6].to_f)
    when "task", "did", "confirmed"
      Line.new(kind: kind, pid: rest[0].to_i, queue: rest[1], id: rest[2], fence: rest[3].to_i, numbers: unpack(rest[4]), time: rest[5].to_f)
    when "end", "fail", "snooze", "reported", "refused"
      Line.new(kind: kind, pid: rest[0].to_i, queue: rest[1], id: rest[2], fence: rest[3].to_i, time: rest[4].to_f)
    when "heard" then Line.new(kind: kind, queue: rest[0], id: rest[1], fence: rest[2].to_i)
    when "lapsed", "popper" then Line.new(kind: kind, pid: rest[0].to_i, time: rest[1].to_f)
    else Line.new(kind: kind, pid: rest[0].to_i, fence: rest[1]&.to_i)
    end
  end

  def pack(numbers)
    numbers.slice_when { |a, b| b != a + 1 }.map { |run| run.size == 1 ? run[0] : "#{run[0]}-#{run[-1]}" }.join(",")
  end

  def unpack(text)
    text.split(",").flat_map do |part|
      first, last = part.split("-").map(&:to_i)
      last ? (first..last).to_a : [first]
    end
  end
end
