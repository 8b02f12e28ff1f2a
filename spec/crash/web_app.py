"""web_app.py PORT - the web application of the crash kit as WSGI, a thread for each request: everyone may consume."""

from __future__ import annotations

import os
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import seriatim
import seriatim.web


class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: object) -> None:
        pass


seriatim.redis = os.environ["REDIS_URL"]
make_server("127.0.0.1", int(sys.argv[1]), seriatim.web.wsgi_app(consume=True), Server, Quiet).serve_forever()
