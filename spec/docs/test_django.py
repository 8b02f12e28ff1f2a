"""docs/start/django.md: a real project with SQLite, under gunicorn and the command."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from pages import ROOT, blocks_of
from processes import Started, shell, wait_until
from sections import RUN
from support.redis_server import RedisServer, free_ports
from test_mounts import STATS, get, serve

PAGE = "docs/start/django.md"
RUN.update((PAGE, title) for title in ("Settings", "Workers", "Pushing", "The dashboard"))

# What `django-admin startproject` and the project's own code would be.
PROJECT = {
    "shop/__init__.py": "",
    "shop/settings.py": """
SECRET_KEY = "secret"
DEBUG = True
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "shop.urls"
WSGI_APPLICATION = "shop.wsgi.application"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "orders"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3", "CONN_MAX_AGE": 0}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

""",
    "shop/urls.py": """
from django.urls import path
from orders.views import pay
urlpatterns = [path("orders/<int:pk>/pay", pay)]
""",
    "orders/__init__.py": "",
    "orders/models.py": """
from django.db import models
class Order(models.Model):
    status = models.CharField(max_length=20)
""",
    "orders/migrations/__init__.py": "",
}

PREPARE = """
import django
django.setup()
from django.core.management import call_command
call_command("makemigrations", "orders", verbosity=0)
call_command("migrate", verbosity=0)
from django.contrib.auth.models import User
from django.test import Client
from orders.models import Order
Order.objects.create(pk=17, status="new")
for name, words in {"root": {"is_superuser": True}, "staff": {"is_staff": True}, "guest": {}}.items():
    client = Client()
    client.force_login(User.objects.create(username=name, **words))
    print(name, client.cookies["sessionid"].value)
"""

STATUS = "import django; django.setup(); from orders.models import Order; print(Order.objects.get(pk=17).status)"


@pytest.fixture
def env(tmp_path: Path, redis: RedisServer) -> dict[str, str]:
    shown = {block.name: PROJECT.get(block.name, "") + block.text for block in blocks_of(ROOT / PAGE) if block.name}
    for name, text in {**PROJECT, **shown, "prepare.py": PREPARE, "status.py": STATUS}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return {"PYTHONPATH": f"{ROOT}/python:.", "REDIS_URL": redis.url, "DJANGO_SETTINGS_MODULE": "shop.settings", "PYTHONDONTWRITEBYTECODE": "1"}


def open_files(pid: int, name: str) -> int:
    links = (os.path.realpath(path) for path in Path(f"/proc/{pid}/fd").iterdir())
    return sum(link.endswith(name) for link in links)


def test_the_site_pushes_and_the_server_works(tmp_path: Path, env: dict[str, str]) -> None:
    cookies = dict(line.split() for line in shell(f"{sys.executable} prepare.py", tmp_path, env).splitlines()[-3:])
    (port,) = free_ports(1)
    site = serve(f"{sys.executable} -m gunicorn --preload -w 2 -b 127.0.0.1:{port} shop.wsgi", tmp_path, env, port)
    command = next(block.text for block in blocks_of(ROOT / PAGE) if block.language == "sh").replace("seriatim", f"{sys.executable} -m seriatim", 1)
    with site, Started(command, tmp_path, env) as server:
        server.wait_for("start node")
        assert get(port, "/orders/17/pay")[0] == 202
        wait_until(lambda: shell(f"{sys.executable} status.py", tmp_path, env) == "paid\n", lambda: server.log)
        # The middleware has closed the connection of the thread that ran the job.
        wait_until(lambda: open_files(server.pid, "shop.sqlite3") == 0, lambda: "a connection stays open")
        roles = {name: get(port, STATS, Cookie=f"sessionid={cookie}")[0] for name, cookie in cookies.items()}
        assert roles == {"root": 200, "staff": 200, "guest": 401}
        assert get(port, STATS)[0] == 401
        assert server.stop() == 0
