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
    { "1" => %w[man], "bash" => %w[completion bash], "zsh" => %w[completion zsh], "fish" => %w[completion fish] }.each do |ending, words|
      expect([File.read("#{share}/seriatim.#{ending}"), 0]).to eq(Command.run(*words))
    end
    expect(ran("bash", "-c", "source #{share}/seriatim.bash && complete -p seriatim")).to include("-F _seriatim seriatim")
  end

  # What fish would offer behind these words, without the descriptions.
  def fish_offers(share, line)
    ran("fish", "--no-config", "-c", "source #{share}/seriatim.fish; complete -C '#{line}'").lines.map { |offer| offer[/[^\t\n]+/] }
  end

  it "holds a completion for fish that offers verbs, actions, options and files where they belong" do
    share = "#{root}/core/package/seriatim"
    expect(fish_offers(share, "seriatim sche")).to eq(["scheduled"])
    expect(fish_offers(share, "seriatim dead ")).to eq(%w[delete list retry])
    expect(fish_offers(share, "seriatim dead list --")).to include("--limit", "--help")
    expect(fish_offers(share, "seriatim dead list --")).not_to include("--threads", "--delay")
    expect(fish_offers(share, "seriatim --th")).to eq(["--threads"])
    expect(fish_offers(share, "seriatim server -r #{root}/Rake")).to eq(["#{root}/Rakefile"])
    expect(fish_offers(share, "seriatim help comp")).to eq(["completion"])
  end

  it "lets fish offer the queues that the command lists" do
    File.write("#{@dir}/seriatim", "#!/bin/sh\n[ \"$*\" = queues ] && printf 'queue  shards\\nOrders 5\\n'\n", perm: 0o755)
    expect(fish_offers("#{root}/core/package/seriatim", "#{@dir}/seriatim pause O")).to eq(["Orders"])
  end
end
