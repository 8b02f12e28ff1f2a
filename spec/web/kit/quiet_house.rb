# frozen_string_literal: true

# A store in which nobody works, so that all of it can be compared; with a mount of each kind.
module QuietHouse
  NAME = "Orders"

  class << self
    def live
      @live ||= Live.new([NAME]).tap do |live|
        live.fill(NAME, later: 2, retrying: 2, dead: 2, parked: 1)
        live.stop_worker
      end
    end

    def mount(name) = (@mounts ||= {})[name] ||= Mounts::CONSUMING.fetch(name).new(live.redis)
    def close = [*@mounts&.values, @live].compact.each(&:close)
  end
end

RSpec.configure { |config| config.after(:suite) { QuietHouse.close } }

# All routes, as the router lists them.
ALL_ROUTES = Seriatim.module_eval { const_get(:Native) }.web_routes.map { |method, pattern, role, mutates| { method: method, pattern: pattern, role: role, mutates: mutates } }
# Those of consumers, who may use no other.
CONSUMING_ROUTES, ROUTES = ALL_ROUTES.partition { |route| route[:pattern].include?("/consume/") }

# Open to all.
PROBES = %w[/livez /readyz].freeze

# The path of a route that names the queue; of one about errors, a fingerprint that no error has.
def path_of(route) = route[:pattern].sub(/:(worker|queue|node)\b/, QuietHouse::NAME).sub(":fingerprint", "0123456789abcdef")
