"""A real HTTP server on loopback that answers as a program would that does not run here."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@contextmanager
def standing_in(pages: Mapping[str, Any]) -> Iterator[str]:
    """Its base URL while it answers: text as it is, all else as JSON, 404 for other paths."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path)
            body = page.encode() if isinstance(page, str) else json.dumps(page).encode()
            self.send_response(404 if page is None else 200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", "0")))
            self.do_GET()

        @override
        def log_message(self, *args: Any) -> None:
            """Nothing: the test says what matters."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
