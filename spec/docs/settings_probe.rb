# frozen_string_literal: true

# Reads {"module" or "worker" => {setting => [values]}} and answers what the settings are in Ruby: their defaults, and for each value
# nil or why it was refused. Also what an unknown key of -C FILE is answered, and a line of the log with all fields in both forms.
require "json"
require "stringio"
require "seriatim"
require "seriatim/config_file"

Seriatim.redis = nil
WORKER = Module.new { extend Seriatim::Worker }
FIELDS = { q: "orders", id: "17", n: 0, elapsed: 0.5 }.freeze

def refusals(target, values)
  values.to_h do |name, list|
    [name, list.map { |value| refusal(target, name, value) }]
  end
end

def refusal(target, name, value)
  target.public_send(:"#{name}=", value)
  nil
rescue Seriatim::Invalid => e
  e.message
end

def plain(value)
  return value if [nil, true, false, []].include?(value) || value.is_a?(Numeric)
  return value.to_s if value.is_a?(String) || value.is_a?(Symbol)

  "built in"
end

def names(target) = target.methods.grep(/\A[a-z]\w*=\z/).map { |name| name.to_s.delete_suffix("=") }
def defaults(target, names) = names.to_h { |name| [name, plain(target.public_send(name))] }

def unknown_key
  Seriatim.const_get(:ConfigFile).read(ARGV.fetch(0), nil)
rescue Seriatim::UsageError => e
  e.message
end

def log_line(format)
  output = StringIO.new
  Seriatim.logger = Seriatim::Log.default(output, format: format)
  Seriatim::Log.warn("fail", "no stock", **FIELDS)
  output.string
end

asked = JSON.parse($stdin.read)
worker_names = Seriatim::Worker.const_get(:DEFAULTS).keys.map(&:to_s)
WORKER.queue_name = "orders"
answer = {
  module: defaults(Seriatim, names(Seriatim) - ["reload_workers"]), # which is the Rails integration's
  worker: defaults(WORKER, worker_names),
  refusals: { module: refusals(Seriatim, asked["module"]), worker: refusals(WORKER, asked["worker"]) },
  unknown_key: unknown_key, text: log_line("text"), json: log_line("json")
}
puts JSON.generate(answer)
