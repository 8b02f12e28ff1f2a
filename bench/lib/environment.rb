# frozen_string_literal: true

# Nothing of the caller's environment may change what is measured.
ENV.delete_if { |name, _| name.start_with?("LC_", "RUBYOPT", "BUNDLE_", "PYTHON", "CELERY_", "RQ_", "REDIS_", "SERIATIM_", "RAILS_", "RACK_", "NODE_") }
ENV["LC_ALL"] = "C.UTF-8"
