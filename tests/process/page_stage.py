"""A server that plays tallyd for the live page, and says what a test wants."""
import http.server
import json
import pathlib
import queue
import threading

PAGE = pathlib.Path(__file__).resolve().parents[2] / "control/http/page.html"
# What tallyd sends with it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src data:"
PATIENCE = 120  # seconds


class Stage:
    """The page and an event stream in which a test says what it likes."""

    def __init__(self):
        stage = self
        self.streams, self.refuses, self.single = queue.Queue(), False, None

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

            def do_GET(self):  # pylint: disable=invalid-name
                if self.path == "/":
                    return self.say(200, "text/html; charset=utf-8", PAGE.read_bytes())
                if self.path == "/api/v1/box" and stage.single:
                    return self.say(200, "application/json", json.dumps(stage.single).encode())
                if self.path != "/events" or stage.refuses:
                    return self.say(503, "text/plain", b"too many\n")
                frames = queue.Queue()
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                stage.streams.put(frames)
                for frame in iter(frames.get, None):
                    self.wfile.write(frame)
                return None

            def say(self, code, kind, body):
                self.send_response(code)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Security-Policy", POLICY)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stream(self):
        """What the page's next stream is fed from; None ends it."""
        return self.streams.get(timeout=PATIENCE)


def frame_of(kind, data):
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
