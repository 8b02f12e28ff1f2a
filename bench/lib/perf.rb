# frozen_string_literal: true

# Where a process spends its time, by perf's clock: no counters of the processor are needed.
class Perf
  HERTZ = 1999
  Row = Struct.new(:share, :symbol, :object)
  LINE = /\A\s*(\d+)\s+(\S+)\s+\[(.)\]\s+(.+?)(?:\s+-)*\s*\z/ # samples, object, space, symbol

  def self.there? = system("perf", "--version", out: File::NULL, err: File::NULL)

  # @param pids [Array<Integer>] of one program and its children
  def initialize(pids, folder)
    @data = "#{folder}/perf-#{pids.first}.data"
    @paths = mapped(pids.first)
    @perf = Process.detach(spawn("perf", "record", "-q", "-e", "cpu-clock", "-F", HERTZ.to_s, "-o", @data, "-p", pids.join(","),
                                 out: File::NULL, err: File::NULL))
  end

  def stop
    Process.kill(:INT, @perf.pid) if @perf.alive?
    @perf.join(60)
    @samples = Hash.new(0)
    report.each { |number, object, symbol| @samples[[named(object, symbol), object]] += number }
    self
  end

  # @return [Array<Row>] the symbols with the most samples
  def symbols(count)
    @samples.max_by(count) { |_, number| number }.map { |(symbol, object), number| Row.new(share(number), symbol, object) }
  end

  # @return [Array<Row>] the files with the most samples; no symbol
  def objects(count)
    sums = @samples.group_by { |(_, object), _| object }.transform_values { |each| each.sum(&:last) }
    sums.max_by(count, &:last).map { |object, number| Row.new(share(number), nil, object) }
  end

  private

  def share(number) = number / @samples.values.sum.to_f

  # The files that are mapped, by their names.
  def mapped(pid)
    File.readlines("/proc/#{pid}/maps").filter_map { |line| line[%r{ (/\S+)$}, 1] }.uniq.to_h { |path| [File.basename(path), path] }
  end

  def report
    listing = %w[--stdio --no-children -g none --percent-limit 0 --fields sample,dso,sym]
    IO.popen(["perf", "report", "-i", @data, *listing], err: File::NULL, &:readlines).filter_map do |line|
      match = LINE.match(line) or next
      [match[1].to_i, match[2], match[4]]
    end
  end

  # Of a function without a symbol its start: perf knows the place alone.
  def named(object, symbol)
    return symbol unless symbol.start_with?("0x")

    place = symbol.to_i(16)
    range = functions(object).bsearch { |from, _| from <= place }
    range && place < range.last ? format("(no name, at 0x%x)", range.first) : "(no name)"
  end

  # Of a stripped file the ranges of its functions, by what it says for unwinding, the last ones first.
  def functions(object)
    @functions ||= {}
    @functions[object] ||= frames(@paths[object]).map { |from, to| [from.to_i(16), to.to_i(16)] }.sort.reverse
  end

  def frames(path)
    path ? IO.popen(["readelf", "--debug-dump=frames", path], err: File::NULL, &:read).scan(/ FDE .*pc=(\h+)\.\.(\h+)/) : []
  rescue Errno::ENOENT
    []
  end
end
