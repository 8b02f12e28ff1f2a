# The dashboard as a Rack application, for spec/web.
require "seriatim"

redact = ->(_queue, _id, text) { text.b.include?("SECRET") ? text.b.gsub(/SECRET\w*/n, "****") : text }
role = lambda do |env|
  word = env["HTTP_COOKIE"].to_s[/\brole=(\w+)/, 1] || "admin"
  word == "nobody" ? nil : word
end
settings = { hosts: ["127.0.0.1"], redact: redact }

map("/admin/jobs") { run Seriatim::Web.new(consume: true, role: role, **settings) }
map("/read-only") { run Seriatim::Web.new(read_only: true, **settings) }
map("/token") { run Seriatim::Web.new(token: "l\u00E4t me in", **settings) }
