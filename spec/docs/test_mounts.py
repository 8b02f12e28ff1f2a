"""The dashboard below Rails, Rack, Flask, FastAPI, nginx and on its own, as the pages show it."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import sys
from base64 import b64encode
from pathlib import Path

import pytest
from pages import ROOT, Section
from processes import Started, shell, wait_until
from sections import runs
from support.redis_server import RedisServer, free_ports

STATS = "/jobs/api/v1/stats"
RUBY = f"ruby -I {ROOT}/ruby/lib"


@pytest.fixture
def env(tmp_path: Path, redis: RedisServer) -> dict[str, str]:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin/seriatim"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m seriatim "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "REDIS_URL": redis.url, "PYTHONPATH": f"{ROOT}/python",
            "JOBS_PASSWORD": "open sesame", "PYTHONDONTWRITEBYTECODE": "1"}


def get(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, body, and the cookie that was set, as a browser sends it."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), (answer.headers["Set-Cookie"] or "").split(";")[0]


def basic(password: str) -> str:
    return "Basic " + b64encode(f"admin:{password}".encode()).decode()


def serve(command: str, folder: Path, env: dict[str, str], port: int) -> Started:
    server = Started(command, folder, env)
    wait_until(lambda: answers(port), lambda: f"{command}:\n{server.log}")
    return server


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def signs_in(port: int, refused: int) -> None:
    """The dashboard is closed to strangers and open to whom /login has signed in."""
    assert get(port, STATS)[0] == refused
    status, _, cookie = get(port, "/login")
    assert status == 200 and cookie
    status, body, _ = get(port, STATS, Cookie=cookie)
    assert status == 200, body
    json.loads(body)


def rails(folder: Path, files: dict[str, str], env: dict[str, str], requests: list[tuple[str, dict[str, str]]]) -> list[list[object]]:
    """Status and body of each answer, from the application of rails_app.rb with these files."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    asked = json.dumps([[path, {f"HTTP_{name.upper()}": value for name, value in headers.items()}] for path, headers in requests])
    said = shell(f"{RUBY} {ROOT}/spec/docs/rails_app.rb", folder, {**env, "REQUESTS": asked})
    return list(json.loads(said.splitlines()[-1]))


# ---- Rails and Rack --------------------------------------------------------------------------


LOGIN = {"admin": "/login?id=1", "user": "/login?id=2"}


@runs("docs/guides/dashboard.md", "Rails")
def test_rails_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    by_basic, by_session, settings = (blocks.take("ruby") for _ in range(3))
    answers = rails(tmp_path, {by_basic.name: by_basic.text}, env, [
        (STATS, {}), (STATS, {"authorization": basic("wrong")}), (STATS, {"authorization": basic("open sesame")})])
    assert [status for status, _ in answers] == [401, 401, 200]
    answers = rails(tmp_path, {by_session.name: by_session.text, settings.name: settings.text}, env, [
        (STATS, {}), (LOGIN["user"], {}), (STATS, {}), (LOGIN["admin"], {}), (STATS, {})])
    assert [status for status, _ in answers] == [404, 200, 404, 200, 200]


@runs("docs/start/rails.md", "The dashboard")
def test_the_rails_page_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    files = {block.name: block.text for block in (blocks.take("ruby"), blocks.take("ruby"))}
    path = STATS.replace("/jobs", "/seriatim")
    answers = rails(tmp_path, files, env, [(path, {}), (LOGIN["admin"], {}), (path, {})])
    assert [status for status, _ in answers] == [404, 200, 200]


@runs("docs/start/rails.md", "Set up")
def test_rails_has_the_gem(blocks: Section, tmp_path: Path) -> None:
    (tmp_path / "Gemfile").write_text(blocks.take("ruby").text)
    assert shell("ruby -r bundler -e 'print Bundler::Dsl.new.tap { |dsl| dsl.eval_gemfile(\"Gemfile\") }.dependencies.map(&:name)'", tmp_path, {}) == '["seriatim"]'


@runs("docs/start/rails.md", "First job")
def test_rails_pushes_and_works(blocks: Section, tmp_path: Path, env: dict[str, str], redis: RedisServer) -> None:
    worker, model, test = (blocks.take("ruby") for _ in range(3))
    assert [worker.name, model.name, test.name] == ["app/workers/order_worker.rb", "app/models/order.rb", "test/workers/order_worker_test.rb"]
    environment = f'ENV["SERVE"] = "1"\nload {str(ROOT / "spec/docs/rails_app.rb")!r}\n'
    helper = 'require_relative "../config/environment"\nrequire "rails/test_help"\n'
    files = {"config/environment.rb": environment, "test/test_helper.rb": helper} | {each.name: each.text for each in (worker, model, test)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert "1 runs" in shell(f"RAILS_ENV=test {RUBY} -I test {test.name}", tmp_path, env)
    push = "order = nil; Order.transaction { order = Order.create!(id: 17, status: %(new), total: 1999); order.update!(status: %(paid)) }"
    shell(f"{RUBY} -r ./config/environment.rb -e '{push}'", tmp_path, env)
    with Started(f"{RUBY} {ROOT}/ruby/exe/seriatim -r .", tmp_path, env) as server:
        wait_until(lambda: "order 17 is paid" in (tmp_path / "rails.log").read_text(), lambda: server.log)
        assert server.stop() == 0


@runs("docs/guides/dashboard.md", "Rack")
def test_rack_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "config.ru").write_text(blocks.take("ruby").text)
    (port,) = free_ports(1)
    with serve(f"puma -q -b tcp://127.0.0.1:{port} config.ru", tmp_path, {**env, "RUBYLIB": f"{ROOT}/ruby/lib"}, port):
        assert get(port, STATS)[0] == 401
        assert get(port, STATS, Authorization=basic("open sesame"))[0] == 200


# ---- Python ----------------------------------------------------------------------------------


FLASK_LOGIN = """
@app.route("/login")
def login():
    from flask import session
    session["admin"] = True
    return "signed in"
"""
FASTAPI_LOGIN = """
from fastapi import Request

@app.get("/login")
def login(request: Request):
    request.session["admin"] = True
    return "signed in"
"""


# As a web server that signs users in.
SIGN_IN = """
def signed_in(wsgi_app):
    def call(environ, start_response):
        environ["REMOTE_USER"] = environ.get("HTTP_X_USER")
        return wsgi_app(environ, start_response)
    return call

app.wsgi_app = signed_in(app.wsgi_app)
"""


def gunicorn(port: int, what: str = "app:app") -> str:
    return f"{sys.executable} -m gunicorn --preload -w 2 -b 127.0.0.1:{port} {what}"


@runs("docs/guides/dashboard.md", "Flask and other WSGI applications")
def test_flask_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "app.py").write_text(blocks.take("python").text + FLASK_LOGIN)
    (port,) = free_ports(1)
    with serve(gunicorn(port), tmp_path, {**env, "SECRET_KEY": "secret"}, port):
        signs_in(port, 401)


@runs("docs/guides/dashboard.md", "FastAPI and Starlette")
def test_fastapi_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "app.py").write_text(blocks.take("python").text + FASTAPI_LOGIN)
    (port,) = free_ports(1)
    with serve(f"{sys.executable} -m uvicorn --port {port} app:app", tmp_path, {**env, "SECRET_KEY": "secret"}, port):
        signs_in(port, 401)


@runs("docs/start/python.md", "The dashboard")
def test_the_python_page_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "app.py").write_text(blocks.take("python").text + SIGN_IN)
    (port,) = free_ports(1)
    with serve(gunicorn(port), tmp_path, env, port):
        assert [get(port, STATS, **user)[0] for user in ({"X-User": "ada"}, {"X-User": "eve"}, {})] == [200, 401, 401]


# ---- nginx and alone -------------------------------------------------------------------------


def nginx(location: str, folder: Path, env: dict[str, str], port: int) -> Started:
    (folder / "nginx.conf").write_text(f"""
load_module /usr/lib/nginx/modules/ndk_http_module.so;
load_module /usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off; pid nginx.pid; user root; error_log error.log; env REDIS_URL;
events {{ worker_connections 64; }}
http {{
  access_log off;
  lua_package_path "{folder}/?.lua;{ROOT}/lua/?.lua;;"; lua_package_cpath "{ROOT}/lua/lib/5.1/?.so;;";
  server {{ listen 127.0.0.1:{port}; {location} }}
}}""")
    return serve(f"nginx -p {folder} -c nginx.conf -e error.log", folder, env, port)


@runs("docs/guides/dashboard.md", "nginx")
def test_nginx_mounts_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (port,) = free_ports(1)
    text = blocks.take("nginx").text.replace("/etc/nginx/jobs.htpasswd", f"{tmp_path}/htpasswd")
    (tmp_path / "htpasswd").write_text(f"admin:{shell('openssl passwd -apr1 sesame', tmp_path, {}).strip()}\n")
    tmp_path.chmod(0o755)
    with nginx(text, tmp_path, env, port) as server:
        assert get(port, STATS)[0] == 401
        assert get(port, STATS, Authorization=basic("sesame"))[0] == 200
        server.stop()


@runs("docs/start/openresty.md", "The dashboard")
def test_nginx_mounts_the_dashboard_behind_a_session(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (port,) = free_ports(1)
    (tmp_path / "session.lua").write_text('return { role = function(cookie) return cookie == "a=1" and "admin" or nil end }\n')
    with nginx(blocks.take("nginx").text, tmp_path, env, port) as server:
        assert get(port, "/admin" + STATS)[0] == 401
        assert get(port, "/admin" + STATS, Cookie="a=1")[0] == 200
        server.stop()


@runs("docs/start/openresty.md", "Popping")
def test_nginx_hands_the_next_job_to_a_consumer(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    (port,) = free_ports(1)
    location = blocks.take("nginx").text
    assert "wait = 20" in location
    with nginx(location.replace("wait = 20", "wait = 0.1"), tmp_path, env, port) as server:
        assert get(port, "/next")[0] == 204
        shell("""seriatim push Mails 1 '{"to":"ann"}' --create""", tmp_path, env)
        assert get(port, "/next")[:2] == (200, "ann\n")
        assert get(port, "/next")[0] == 204
        server.stop()


@runs("docs/guides/dashboard.md", "On its own")
def test_seriatim_web_serves_the_dashboard(blocks: Section, tmp_path: Path, env: dict[str, str]) -> None:
    commands = [re.sub(r" *#.*", "", line) for line in blocks.take("sh").text.splitlines()]
    assert len(commands) == 3
    (tmp_path / "token").write_text("open-sesame")
    for command in commands:
        (port,) = free_ports(1)
        command = command.replace("/run/seriatim", str(tmp_path))
        unix = "unix:" in command
        with Started(command if unix else f"{command} --port {port}", tmp_path, env) as server:
            server.wait_for("the dashboard is at")
            if unix:
                assert (tmp_path / "web.sock").stat().st_mode & 0o077 == 0
            else:
                assert get(port, "/api/v1/stats", Authorization="Bearer open-sesame")[0] == 200
                assert get(port, "/api/v1/stats")[0] == (401 if "SERIATIM_WEB_TOKEN" in command else 200)
            assert server.stop() == 0
