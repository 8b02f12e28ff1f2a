# frozen_string_literal: true

# What `seriatim web -r` loads in spec/web.
require "seriatim"

Seriatim::Web.configure do |web|
  web.redact = ->(_queue, _id, text) { text.b.include?("SECRET") ? text.b.gsub(/SECRET\w*/n, "****") : text }
  web.hosts = ["127.0.0.1"]
  web.consume = true
  web.role = lambda do |env|
    word = env["HTTP_COOKIE"].to_s[/\brole=(\w+)/, 1] || "admin"
    word == "nobody" ? nil : word
  end
end
