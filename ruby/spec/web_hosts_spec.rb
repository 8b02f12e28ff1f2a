# frozen_string_literal: true

require_relative "spec_helper"
require "socket"

begin
  require_relative "support/web_client"
rescue LoadError
  return # no rack: apt-get install ruby-rails
end

# Below the routers and servers that people have.
RSpec.describe "a mounted Seriatim::Web", limit: 120 do
  include WebClient

  around { |example| Dir.mktmpdir { |dir| (@dir = dir) && example.run } }

  # What an API-only Rails application answers to these paths: [path, status, Location, type, the page's first file, body].
  def rails(paths)
    program = <<~RUBY
      require "logger"
      require "rails"
      require "action_controller/railtie"
      require "seriatim"
      Seriatim.logger = nil # standard output is for the answers
      class TestApplication < Rails::Application
        config.load_defaults 6.1
        config.api_only = true
        config.eager_load = false
        config.logger = Logger.new(nil)
        config.secret_key_base = "test"
        config.hosts.clear
      end
      Rails.application.initialize!
      Rails.application.routes.draw do
        mount Seriatim::Web => "/seriatim"
        scope("/admin") { mount Seriatim::Web.new(read_only: true), at: "/jobs" }
      end
      require "json"
      puts JSON.generate(JSON.parse($stdin.read).map { |method, path|
        answer = Rack::MockRequest.new(Rails.application).request(method, path, "CONTENT_TYPE" => "application/json", "HTTP_SEC_FETCH_SITE" => "same-origin")
        [path, answer.status, answer["Location"], answer["Content-Type"], answer.body[/src="([^"]+)"/, 1], answer.body]
      })
    RUBY
    output, status = Open3.capture2({ **Command::NEUTRAL, "REDIS_URL" => REDIS.url }, *Command::RUBY, "-e", program, stdin_data: JSON.generate(paths))
    raise output unless status.success?

    JSON.parse(output)
  end

  it "is mounted by Rails, API-only, under any prefix" do
    skip "Rails is not installed" unless Gem::Specification.find_all_by_name("railties").any?
    worker("a/b").perform_async([{ id: 1 }])
    pages = { "/seriatim/" => "", "/seriatim/queues" => "", "/seriatim/queues/" => "../", "/seriatim/queues/x?y=/" => "../", "/admin/jobs/" => "" }
    answers = rails([["GET", "/seriatim"], ["GET", "/admin/jobs?x=/"], *pages.keys.map { |path| ["GET", path] },
                     %w[GET /seriatim/api/web/a%2Fb/range_by_id], %w[POST /seriatim/api/web/a%2Fb/pause], %w[POST /admin/jobs/api/web/a%2Fb/pause]])
    expect(answers.shift(2).map { |answer| answer[1, 2] }).to eq([[308, "/seriatim/"], [308, "/admin/jobs/"]])
    answers.shift(pages.size).each { |path, status, _, type, file| expect([path, status, type, file]).to match([path, 200, /html/, /\A#{pages[path]}assets/]) }
    expect(answers.map { |answer| answer[1] }).to eq([200, 200, 403])
  end

  it "runs on Puma, its queues' names as they came" do
    skip "no puma: apt-get install puma" unless system("command -v puma >/dev/null")
    name = "a/b c%2F"
    worker(name).perform_async([{ id: "\u00e9/?" }])
    socket = File.join(@dir, "puma")
    File.write(File.join(@dir, "config.ru"), "require 'seriatim'\nmap('/jobs') { run Seriatim::Web }\n")
    pid = spawn({ **Command::NEUTRAL, "REDIS_URL" => REDIS.url, "RUBYLIB" => Command::PATHS.join(":") }, "puma", "-t", "2:2", "-b", "unix://#{socket}",
                File.join(@dir, "config.ru"), out: File.join(@dir, "log"), err: %i[child out])
    eventually(30) { File.exist?(socket) && File.read(File.join(@dir, "log")).include?("Use Ctrl-C") }
    answer = UNIXSocket.open(socket) do |io|
      io.write("GET /jobs/api/web/#{URI.encode_www_form_component(name).gsub("+", "%20")}/range_by_id HTTP/1.0\r\n\r\n")
      io.read
    end
    expect(JSON.parse(answer.split("\r\n\r\n", 2).last).map { |record| record["id"] }).to eq(["\u00e9/?"])
  ensure
    Process.kill(:TERM, pid) && Process.wait(pid) if pid
  end
end
