# The dashboard of Seriatim: user "admin" with the password in SERIATIM_PASSWORD. Nobody can open it while that is not set.
mount Rack::Auth::Basic.new(Seriatim::Web, "Seriatim") { |user, password|
  expected = ENV["SERIATIM_PASSWORD"].to_s
  user == "admin" && expected != "" && ActiveSupport::SecurityUtils.secure_compare(password, expected)
} => "/seriatim"
