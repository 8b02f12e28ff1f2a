# frozen_string_literal: true

# The application of spec/web: a worker for each name in the file that QUEUES names (JSON, names in Base64). What a job does
# stands in its payload: {"fail": text}, {"sleep": seconds}, {"wait": path of a file that will be there}. SHARDS are 2 and THREADS 12 if it
# does not say so.
require "json"
require "seriatim"

module Application
  PARKING = "Parks"

  # A failing id waits for an hour before it is tried again, and dies at its third failure; in the queue PARKING it is parked then.
  def self.worker(name)
    Module.new do
      extend Seriatim::Worker
      self.queue_name = name
      self.shards_count = Integer(ENV.fetch("SHARDS", 2))
      self.max_retry_count = 2
      self.history_per_id = 20
      self.fold = :list
      self.on_exhausted = :park if name == PARKING
      def self.retry_in(_retry_count) = 3600

      def self.perform(payloads_by_id)
        payloads_by_id.each_value do |payloads|
          orders = payloads.grep(Hash)
          orders.each { |payload| sleep payload["sleep"] if payload["sleep"] }
          orders.each { |payload| sleep 0.02 until File.exist?(payload["wait"]) if payload["wait"] }
          orders.each { |payload| raise payload["fail"] if payload["fail"] }
        end
      end
    end
  end

  WORKERS = ENV["QUEUES"] ? JSON.parse(File.read(ENV["QUEUES"])).map { |name| worker(name.unpack1("m")) } : []
end

Seriatim.workers = Application::WORKERS
Seriatim.poll_interval = 0.2
Seriatim.format_error = :message.to_proc # the tests compare what is shown with what was raised
Seriatim.threads_per_node = Integer(ENV.fetch("THREADS", 12))
