# frozen_string_literal: true

module Seriatim
  # Warns if Redis is not configured to keep jobs.
  # @api private
  module Health
    SECONDS = 5

    module_function

    def check(url)
      connection = Connection.new(url, Seriatim.namespace)
      judge(**connection.health(limit: SECONDS))
    rescue StandardError => e
      warn "maxmemory-policy and appendonly cannot be checked: #{Log.describe(e)}"
    ensure
      connection&.close
    end

    # nil: Redis does not tell.
    def judge(maxmemory_policy:, appendonly:, replicas:)
      policy = maxmemory_policy
      return warn "Redis forbids INFO, so maxmemory-policy and appendonly cannot be checked" if policy.nil? && appendonly.nil?

      warn "maxmemory-policy is #{policy}: Redis may throw jobs away; set it to noeviction" unless [nil, "noeviction"].include?(policy)
      warn "appendonly is no: what Redis has not saved is lost when it stops; set it to yes" if appendonly == false
      wanted = Seriatim.wait_replicas
      warn "wait_replicas is #{wanted}, but Redis has #{replicas} replicas: every push will say NotReplicated" if replicas && replicas < wanted
    end

    def warn(text) = Log.warn("redis", text)
  end
  private_constant :Health
end
