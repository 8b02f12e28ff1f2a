# frozen_string_literal: true

require_relative "spec_helper"
require "seriatim/server/application"
require "seriatim/config_file"

RSpec.describe "the file of -C" do
  around { |example| Dir.mktmpdir { |dir| (@path = File.join(dir, "s.yml")) && example.run } }

  def read(text, environment = nil)
    File.binwrite(@path, text)
    Seriatim.module_eval { const_get(:ConfigFile) }.read(@path, environment)
  end

  def refusal(text)
    read(text) && nil
  rescue Seriatim::UsageError => e
    e.message
  end

  it "names the file, the key, the rule and the value of what is of a wrong type" do
    wrong = {
      "require" => [["5", "{a: 1}", "", "[app]"], "a text"], "threads" => [["many", "1.5", "true", "", "{a: 1}", "[1]"], "an integer"],
      "processes" => [["'2'", "2.0", ""], "an integer"],
      "queues" => [["OrderWorker", "5", "[A, 5]", "{A: 1}", "", "[[A]]"], "a list of texts"],
      "timeout" => [["soon", "'25'", ".nan", ".inf", "", "{a: 1}"], "a number of seconds"], "environment" => [["5", "", "{a: 1}"], "a text"],
      "verbose" => [["'yes'", "1", ""], "true or false"], "log_format" => [["xml", "5", "", "[json]"], "text or json"]
    }
    wrong.each do |key, (values, rule)|
      values.each do |value|
        said = "#{@path}: #{key} must be #{rule}, not #{Seriatim.module_eval { const_get(:Validate) }.describe(YAML.safe_load(value, symbolize_names: true))}"
        expect([value, refusal("#{key}: #{value}")]).to eq([value, said])
        expect([value, refusal("test:\n  #{key}: #{value}\nenvironment: test")]).to eq([value, said])
      end
    end
  end

  it "names the file, the line and the key of what YAML reads as a symbol, a date or a time" do
    {
      "verbose: true\n:threads: 5" => "line 2: a key must not be a symbol; write threads without the leading colon, not :threads",
      "test:\n  :threads: 5" => "line 2: a key must not be a symbol; write threads without the leading colon, not :threads",
      "log_format: :json" => "line 1: log_format must not be a symbol; write json without the leading colon, not :json",
      "queues:\n  - a\n  - :b" => "line 3: queues must not be a symbol; write b without the leading colon, not :b",
      "threads: 2024-01-01" => "line 1: threads must not be a date; write 2024-01-01 in quotes if it is a text",
      "- 2024-01-01 10:00:00" => "line 1: a value must not be a time; write 2024-01-01 10:00:00 in quotes if it is a text",
      "threads: !ruby/object:Object {}" => "Tried to load unspecified class: Object"
    }.each { |text, said| expect([text, refusal(text)]).to eq([text, "#{@path}: #{said}"]) }
    expect(refusal("':threads': 5")).to start_with("#{@path}: unknown key :threads; known are ")
  end

  it "reads valid settings, by environment" do
    text = "queues: [A, 'b c']\nthreads: 2\ntimeout: 1.5\nlog_format: json\nverbose: false\nstaging:\n  threads: 3\n"
    right = { queues: ["A", "b c"], threads: 2, timeout: 1.5, log_format: "json", verbose: false }
    expect(read(text)).to eq(right)
    expect(read(text, "staging")).to eq({ **right, threads: 3 })
    expect(read("")).to eq({})
  end

  it "shows the error that Ruby code in the file raised" do
    expect(refusal("threads: <%= nil + 1 %>")).to match(/\A-C #{@path}: NoMethodError: undefined method/)
    expect(refusal("threads: <%= fetch( %>")).to start_with("-C #{@path}: SyntaxError: ")
    expect(refusal("threads: \xff")).to start_with("-C #{@path}: ").or start_with("-C (#{@path})")
    expect(refusal("- 1")).to eq("#{@path}: must be a map of settings")
  end
end
