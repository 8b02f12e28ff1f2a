# frozen_string_literal: true

require "digest"
require "fileutils"

# Compiles the kit's C programs with the core, straight with cc. The core is two objects: the one with the texts of the scripts is
# small, and a mutant of a script needs no other one. Objects and programs stay in tmp/crash under the digest of all that they
# were made from. CORE names another core than this checkout's.
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
    units = ["#{KIT}/#{name}.c", "#{KIT}/journal.c"]
    LOCK.synchronize do
      objects = [core_object(core), scripts_object(core)]
      made(name, digest(units + Dir["#{KIT}/*.h"].sort, *objects)) do |path|
        compile(core, *units, *objects, "-o", path, *libraries)
      end
    end
  end

  # All but the texts of the scripts: of those it knows their names, and thus their numbers.
  def core_object(core)
    texts, files = Dir["#{core}/{src,include}/**/*.{c,h,inc}"].sort.partition { |path| path.end_with?("/wire/scripts.inc") }
    names = File.read(texts.fetch(0)).scan(/X\((\w+), /).join(" ")
    object("core", core, digest(files, names)) { |line| !line.end_with?("/script.c\"\n") }
  end

  def scripts_object(core)
    files = Dir["#{core}/{src,include}/**/*.{h,inc}"].sort << "#{core}/src/all.c" << "#{core}/src/wire/script.c"
    object("scripts", core, digest(files)) { |line| line.end_with?("/script.c\"\n") }
  end

  # Of all.c with those of its units for whose line the block is true.
  def object(name, core, digest)
    made("#{name}-object", digest) do |path|
      File.write("#{path}.c", File.readlines("#{core}/src/all.c").select { |line| !line.match?(/\A#include ".*\.c"/) || yield(line) }.join)
      compile(core, "-c", "#{path}.c", "-o", "#{path}.o")
      File.delete("#{path}.c")
      File.rename("#{path}.o", path)
    end
  end

  # @return [String] the path of what the block has made, now or earlier. Another run may make the same at the same time.
  def made(name, digest)
    path = File.join(FOLDER, "#{name}-#{digest}")
    return path if File.exist?(path)

    FileUtils.mkdir_p(FOLDER)
    yield "#{path}.#{Process.pid}"
    File.rename("#{path}.#{Process.pid}", path)
    path
  end

  def digest(files, *texts)
    digest = Digest::SHA256.new
    files.each { |file| digest << File.basename(file) << File.binread(file) }
    texts.each { |text| digest << text }
    digest.hexdigest[0, 16]
  end

  def compile(core, *words)
    command = [ENV.fetch("CC", "cc"), *FLAGS, *libraries.grep(/\A-D/), "-I#{core}/include", "-I#{core}/src", *words]
    system(*command) or raise "#{command.join(" ")} failed"
  end

  def libraries
    @libraries ||= [*(%w[-DSERIATIM_WITH_OPENSSL -lssl -lcrypto] if system("pkg-config", "--exists", "openssl")), "-lhiredis", "-lpthread", "-lm"]
  end
end
