# frozen_string_literal: true

require "digest"
require "fileutils"

# Compiles the kit's C programs with the core, as one unit, straight with cc. A program stays in tmp/crash under the digest of
# all that it was made from. CORE names another core than this checkout's.
module CProgram
  ROOT = File.expand_path("../../..", __dir__)
  CORE = ENV.fetch("CORE", File.join(ROOT, "core"))
  FOLDER = File.join(ROOT, "tmp/crash")
  KIT = File.expand_path("..", __dir__)
  FLAGS = %w[-std=c99 -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wstrict-prototypes -O0].freeze # compiling takes longer than what the programs do

  LOCK = Mutex.new # threads of one process ask for the same program

  module_function

  def worker(core = CORE) = build("worker", core)

  def producer(core = CORE) = build("producer", core)

  def popper(core = CORE) = build("popper", core)

  # @param core [String] the folder of the core, or of a mutant of it
  # @return [String] the program's path
  def build(name, core)
    units = ["#{KIT}/#{name}.c", "#{KIT}/journal.c", "#{core}/src/all.c"]
    path = File.join(FOLDER, "#{name}-#{digest(units + Dir["#{KIT}/*.h", "#{core}/{src,include}/**/*.{c,h,inc}"].sort)}")
    LOCK.synchronize { compile(units, core, path) unless File.exist?(path) }
    path
  end

  def digest(files)
    files.each_with_object(Digest::SHA256.new) { |file, digest| digest << File.basename(file) << File.binread(file) }.hexdigest[0, 16]
  end

  # Another run may build the same at the same time.
  def compile(units, core, path)
    FileUtils.mkdir_p(FOLDER)
    made = "#{path}.#{Process.pid}"
    command = [ENV.fetch("CC", "cc"), *FLAGS, "-I#{core}/include", "-I#{core}/src", *units, "-o", made, *libraries]
    system(*command) or raise "#{command.join(" ")} failed"
    File.rename(made, path)
  end

  def libraries
    tls = system("pkg-config", "--exists", "openssl")
    [*(%w[-DSERIATIM_WITH_OPENSSL -lssl -lcrypto] if tls), "-lhiredis", "-lpthread", "-lm"]
  end
end
