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

  # What bash would offer behind these words, by the file of a program that lies in @dir.
  def bash_offers(program, *words)
    ask = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _seriatim "$1"; printf "%s\n" "${COMPREPLY[@]}"'
    env = { "PATH" => "#{@dir}:#{ENV.fetch("PATH")}" }
    ran(env, "bash", "-c", ask, "bash", "#{root}/core/package/#{program}/#{program}.bash", program, *words).lines(chomp: true)
  end

  # A program in @dir that lists them as the command does.
  def lists(program, *queues)
    File.write("#{@dir}/table", ["queue  shards\n", *queues.map { |queue| "#{queue}  5\n" }].join)
    File.write("#{@dir}/#{program}", "#!/bin/sh\n[ \"$*\" = queues ] && cat '#{@dir}/table'\n", perm: 0o755)
  end

  %w[seriatim seriatim-lua].each do |program|
    it "lets bash offer the queues that #{program} lists" do
      lists(program, "Orders", "shop/Orders:2", "Имя", "Prices")
      expect(bash_offers(program, "pause", "")).to include("Orders", "shop/Orders:2", "Имя", "Prices", "--help")
      expect(bash_offers(program, "pause", "O")).to eq(["Orders"])
      expect(bash_offers(program, "help", "comp")).to eq(["completion"])
    end

    it "lets bash run no code from the name of a queue that #{program} lists" do
      lists(program, *%w[$(X) `X` <(X)].map { |name| name.sub("X", "touch${IFS}#{@dir}/ran") }, "Orders")
      expect(bash_offers(program, "pause", "").grep(/Orders|touch/)).to eq(["Orders"])
      expect(File.exist?("#{@dir}/ran")).to be(false)
    end

    it "lets bash offer queues beside one with a quote in its name that #{program} lists" do
      lists(program, "it's", '"', "Orders")
      expect(bash_offers(program, "pause", "O")).to eq(["Orders"])
    end
  end

  it "lets fish run no code from the name of a queue that the command lists" do
    lists("seriatim", "$(touch${IFS}#{@dir}/ran)", "(touch #{@dir}/ran)", "it's", "Orders")
    expect(fish_offers("#{root}/core/package/seriatim", "#{@dir}/seriatim pause ")).to include("Orders", "it's")
    expect(File.exist?("#{@dir}/ran")).to be(false)
  end

  it "lets fish offer the queues that the command lists" do
    File.write("#{@dir}/seriatim", "#!/bin/sh\n[ \"$*\" = queues ] && printf 'queue  shards\\nOrders 5\\n'\n", perm: 0o755)
    expect(fish_offers("#{root}/core/package/seriatim", "#{@dir}/seriatim pause O")).to eq(["Orders"])
  end
end
