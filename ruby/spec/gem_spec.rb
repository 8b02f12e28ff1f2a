# frozen_string_literal: true

require_relative "spec_helper"
require_relative "support/command"

RSpec.describe "the gem", limit: 120 do
  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }

  def root = File.expand_path("../..", __dir__)

  def ran(*words, dir: root)
    output, status = Open3.capture2e(*words, chdir: dir)
    raise output unless status.success?

    output
  end

  # The folder of the unpacked gem.
  def unpacked
    ran("gem", "build", "--quiet", "seriatim.gemspec", "--output", "#{@dir}/seriatim.gem")
    ran("gem", "unpack", "#{@dir}/seriatim.gem", "--target", "#{@dir}/gem")
    Dir["#{@dir}/gem/*"].first
  end

  it "holds the manual page and the completions that the command prints" do
    share = "#{unpacked}/core/package/seriatim"
    { "1" => %w[man], "bash" => %w[completion bash], "zsh" => %w[completion zsh] }.each do |ending, words|
      expect([File.read("#{share}/seriatim.#{ending}"), 0]).to eq(Command.run(*words))
    end
    expect(ran("bash", "-c", "source #{share}/seriatim.bash && complete -p seriatim")).to include("-F _seriatim seriatim")
  end
end
