# frozen_string_literal: true

# At the root, because a gem may only hold files below its gemspec and the C core lies beside ruby/.
Gem::Specification.new do |spec|
  spec.name = "seriatim"
  spec.version = File.read(File.join(__dir__, "core/include/seriatim.h"))[/SERIATIM_VERSION "([^"]+)"/, 1]
  spec.summary = "Background jobs in order, per id, folded, on Redis"
  spec.description = "Queues jobs on Redis so that the jobs of one id run one after another, in order, " \
                     "never twice at once, with equal and superseded messages folded. One C core under " \
                     "Ruby, Python and Lua."
  spec.authors = ["Seriatim contributors"]
  spec.license = "MIT"
  spec.required_ruby_version = ">= 3.1"
  spec.metadata["rubygems_mfa_required"] = "true"

  # A glob, not git: the gem must also build from a tarball. script/check compares it with git.
  spec.files = Dir.glob("{core/{include,src,scripts,package/seriatim},bindings/ruby,ruby/{lib,exe,sig}}/**/*", base: __dir__)
                  .select { |path| File.file?(File.join(__dir__, path)) }
                  .reject { |path| path.end_with?(".so", ".bundle", ".o") }
  spec.files += %w[README.md CHANGELOG.md LICENSE].select { |path| File.exist?(File.join(__dir__, path)) }
  spec.require_paths = ["ruby/lib"]
  spec.bindir = "ruby/exe"
  spec.executables = Dir.children(File.join(__dir__, "ruby/exe")).sort if Dir.exist?(File.join(__dir__, "ruby/exe"))
  spec.extensions = ["bindings/ruby/ext/seriatim/extconf.rb"]
end
