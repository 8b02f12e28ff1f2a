"""docs/guides/outbox.md: the push in a transaction, and the relay."""

from __future__ import annotations

from pathlib import Path

from pages import ROOT, Section
from processes import Started, shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/outbox.md"
APPLICATION = """
require "logger"
require "rails"
require "active_record/railtie"
require "seriatim"
class Application < Rails::Application
  config.root = __dir__ + "/.."
  config.load_defaults 6.1
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "a"
end
Rails.application.initialize!
class Order < ActiveRecord::Base; end
module OrderWorker
  extend Seriatim::Worker
  def self.perform(payloads_by_id) = payloads_by_id
end
"""
SET_UP = """
require "./config/environment"
require "rails/generators"
ActiveRecord::Base.connection.create_table(:orders) { |t| t.string :status }
Rails::Generators.invoke("seriatim:outbox")
ActiveRecord::MigrationContext.new("db/migrate", ActiveRecord::SchemaMigration).migrate
"""


def application(folder: Path, redis: RedisServer) -> dict[str, str]:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config/environment.rb").write_text(APPLICATION)
    (folder / "config/database.yml").write_text("development:\n  adapter: sqlite3\n  timeout: 60000\n  database: app.sqlite3\n")
    return {"REDIS_URL": redis.url, "RUBYLIB": f"{ROOT}/ruby/lib", "PATH": f"{ROOT}/ruby/exe:/usr/local/bin:/usr/bin:/bin"}


@runs(PAGE, "Push in a transaction")
def test_what_is_committed_waits_in_the_outbox(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    env = application(tmp_path, redis)
    code = blocks.take("ruby").text
    (tmp_path / "push.rb").write_text(f"{SET_UP}{code}\np Seriatim::Outbox.metrics[:waiting]\n")
    assert shell("ruby push.rb", tmp_path, env).endswith("\n1\n")


@runs(PAGE, "Run the relay")
def test_the_relay_begins_and_ends(blocks: Section, tmp_path: Path, redis: RedisServer) -> None:
    env = application(tmp_path, redis)
    (tmp_path / "set_up.rb").write_text(SET_UP)
    shell("ruby set_up.rb", tmp_path, env)
    with Started(blocks.take("sh").text.strip(), tmp_path, env) as relay:
        relay.wait_for("relay of the outbox")
        assert relay.stop() == 0
