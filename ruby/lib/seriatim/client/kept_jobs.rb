# frozen_string_literal: true

module Seriatim
  # Jobs that were checked and are written later: no change of what was given reaches them. payloads: their bytes.
  # @api private
  KeptJobs = Struct.new(:settings, :jobs, :payloads) do
    # @param connection [#check_jobs] which knows the rules of the core
    # @return [KeptJobs]
    # @raise [Invalid] what a push of the jobs would raise before it sends anything
    def self.of(worker, jobs, connection)
      jobs = Native.read_jobs(jobs)
      payloads = Jobs.payloads(jobs, worker.payload_codec)
      connection.check_jobs(worker.queue_settings, jobs, payloads)
      jobs.each { |job| keep(job) }
      new(worker.queue_settings, jobs, payloads)
    end

    # What the caller may change later.
    def self.keep(job)
      job[:id] = job[:id].dup if job[:id].is_a?(String) && !job[:id].frozen?
      job[:context] = job[:context].to_h { |key, value| [key, value.dup] } if job[:context]
      job.delete(:payload)
    end
    private_class_method :keep
  end
  private_constant :KeptJobs
end
