"""docs/guides/rails.md: its files and programs, in a Rails application."""

from __future__ import annotations

from pathlib import Path

import pytest
from pages import ROOT, Section
from processes import shell
from sections import runs
from support.redis_server import RedisServer

PAGE = "docs/guides/rails.md"
RUBY = f"ruby -I {ROOT}/ruby/lib"


@pytest.fixture
def env(redis: RedisServer) -> dict[str, str]:
    return {"REDIS_URL": redis.url}


def application(folder: Path, files: dict[str, str]) -> None:
    environment = f'ENV["SERVE"] = "1"\nload {str(ROOT / "spec/docs/rails_app.rb")!r}\n'
    for name, text in {"config/environment.rb": environment, **files}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def run(folder: Path, program: str, env: dict[str, str]) -> str:
    (folder / "program.rb").write_text(program)
    return shell(f"{RUBY} -r ./config/environment.rb program.rb", folder, env)


@runs(PAGE, "Settings")
def test_r_rails_1_the_file_has_settings_of_each_environment(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    file = blocks.take("yaml")
    application(tmp_path, {file.name: file.text})
    shows = "puts [Seriatim.namespace, Seriatim.threads_per_node, Seriatim.stop_timeout].join(' ')"
    assert run(tmp_path, shows, env) == "shop-development 5 25\n"
    assert run(tmp_path, shows, {**env, "RAILS_ENV": "production"}) == "shop 20 25\n"
