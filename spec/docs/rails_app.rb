# frozen_string_literal: true

# A Rails application in the current folder, with the files that lie there; REQUESTS: a JSON list of [path, headers]. Prints its answers.
# SERVE: it is loaded by the command instead, as config/environment.rb.
require "json"
require "logger"
require "rails"
require "active_record/railtie"
require "active_job/railtie"
require "action_controller/railtie"
require "seriatim"

class ShopApplication < Rails::Application
  config.root = Dir.pwd
  config.load_defaults 6.1
  config.eager_load = false
  config.cache_classes = true
  config.logger = ActiveSupport::TaggedLogging.new(Logger.new(File.join(Dir.pwd, "rails.log")))
  config.secret_key_base = "test" * 10
  config.hosts.clear
  config.active_job.queue_adapter = :seriatim
end

class SessionsController < ActionController::Base
  def create
    session[:user_id] = params[:id]
    head :ok
  end
end

Rails.application.routes.append { get "login" => "sessions#create" }
ENV["DATABASE_URL"] = "sqlite3:#{File.join(Dir.pwd, "shop.sqlite3")}"
Rails.application.initialize!

# Not before: an application loads its models after its initializers.
class ApplicationRecord < ActiveRecord::Base
  self.abstract_class = true
end
class User < ApplicationRecord; end

ActiveRecord::Schema.verbose = false
unless ActiveRecord::Base.connection.table_exists?(:users)
  ActiveRecord::Schema.define do
    create_table(:users) { |t| t.boolean :admin }
    create_table(:orders) { |t| t.string(:status) && t.integer(:total) && t.timestamps }
  end
  User.create!(id: 1, admin: true)
  User.create!(id: 2, admin: false)
end
return if ENV["SERVE"]

cookie = nil
answers = JSON.parse(ENV.fetch("REQUESTS")).map do |path, headers|
  headers = headers.merge("HTTP_COOKIE" => cookie) if cookie
  answer = Rack::MockRequest.new(Rails.application).get(path, headers)
  cookie = answer["Set-Cookie"][/[^;]+/] if path.start_with?("/login")
  [answer.status, answer.body]
end
puts JSON.generate(answers)
