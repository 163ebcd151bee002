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
        self.streams, self.refuses, self.single, self.plan = queue.Queue(), False, None, None

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

            def do_GET(self):  # pylint: disable=invalid-name
                if self.path == "/":
                    return self.say(200, "text/html; charset=utf-8", PAGE.read_bytes())
                if self.path == "/api/v1/box" and stage.single:
                    return self.say(200, "application/json", json.dumps(stage.single).encode())
                if self.path == "/api/v1/plan" and stage.plan:
                    return self.say(200, "application/json", json.dumps(stage.plan).encode())
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


def plan_of(racks, spines, **changes):
    """What /api/v1/plan says of racks under spines: a box and a server in each rack, every link a little fuller than the one
    before it, the first box full, the second lost."""
    names = [f"rack{r + 1}" for r in range(racks)] + [f"spine{s + 1}" for s in range(spines)]
    switches = [{"name": name, "rack": n < racks, "hosts": 8, "workers": 8, "host_link_gbps": 25 if n < racks else None,
                 "host_link_load_gbps": 12.5} for n, name in enumerate(names)]
    ends = [(a, b) for a in names[:racks] for b in names[racks:]]
    ways = [way for a, b in ends for way in ((a, b), (b, a))]
    links = [{"from": a, "to": b, "capacity_gbps": 100, "load_gbps": round(90 * n / len(ways), 3)} for n, (a, b) in enumerate(ways)]
    boxes = [{"name": name, "address": f"10.0.{n}.1", "at": name, "capacity_gbps": 100, "load_gbps": round(100 / (n + 1), 3),
              "state": "lost" if n == 1 else "up", "here": n == 0} for n, name in enumerate(names[:racks])]
    servers = [{"name": f"ps{n + 1}", "at": name, "capacity_gbps": 100, "load_gbps": 25, "state": "up"}
               for n, name in enumerate(names[:min(racks, 4)])]
    job = {"name": "resnet", "planned": True, "home": "10.0.0.1", "here": True, "why": "lost box rack2", "rate_gbps": 12.5,
           "bound_gbps": 25, "full": "box rack1", "ring_gbps": 12.9, "ring_is_faster": True}
    return {"planning": True, "cluster": "/etc/tally/cluster.yaml", "trouble": None, "jobs": [job], "switches": switches,
            "links": links, "boxes": boxes, "servers": servers, "revision": 1, **changes}
