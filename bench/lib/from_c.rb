# frozen_string_literal: true

require_relative "contestant"

# Seriatim's core without a language above it: a worker on its public API.
module FromC
  BUILD = "#{Contestant::ROOT}/bench/c/build"
  FOLDER = "#{Contestant::ROOT}/tmp/bench/c"

  module_function

  def names = ["c"]

  # @return [Boolean] it could be built
  def install(_name) = File.exist?(BUILD) && system(BUILD, out: File::NULL)

  def contestant(name, redis, folder)
    trickle = "#{FOLDER}/trickle"
    Contestant.new(name, "Seriatim, C", redis, folder, ours: true,
                   commands: { push: ["#{FOLDER}/push"], serve: ["#{FOLDER}/worker"], note: [trickle, "serve"], pace: [trickle, "push"],
                               both: [trickle, "both"], fill: [trickle, "fill"] })
  end

  def facts = { "C compiler" => IO.popen(%w[cc --version], &:read).lines.first.strip }
end
