# frozen_string_literal: true

module Lowkiq
  # A worker of Seriatim that accepts what Lowkiq accepted: any object as payload, fields of a job that it does not know, and an id of any class.
  module Worker
    include Seriatim::Worker
    extend Seriatim::Worker::Registry

    FIELDS = %i[id payload score perform_in retry_count perform_at delay deliver_at deliver_in on_waiting context].freeze
    private_constant :FIELDS

    # Pushes jobs. May be overridden, and call super.
    # @param jobs [Array<Hash>] as Seriatim's; fields of other names are left out, and an id of another class is its text
    # @return [Seriatim::PushResult]
    def perform_async(jobs, **keywords)
      super(jobs.is_a?(Array) ? jobs.map { |job| Worker.readable(job) } : jobs, **keywords)
    end

    # @api private
    def self.readable(job)
      return job unless job.is_a?(Hash)

      known = job.slice(*FIELDS)
      id = known[:id]
      known[:id] = id.to_s unless id.nil? || id.is_a?(String) || id.is_a?(Symbol) || id.is_a?(Integer)
      known[:retry_count] = known[:retry_count].to_i if known[:retry_count].is_a?(Float)
      known
    end

    # @api private
    def payload_codec = codec.nil? ? Seriatim.module_eval { const_get(:Codec) }.of(Lowkiq.codec) : super
  end
end
