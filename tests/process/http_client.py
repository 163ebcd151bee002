"""A client of tallyd's HTTP, over TCP or a Unix socket."""
import http.client
import json
import socket

PATIENCE = 60  # seconds; an answer takes milliseconds where the machine is not starved


def free_port():
    """Of TCP on this machine, free a moment ago."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Connection(http.client.HTTPConnection):
    """where: a port of this machine, or the path of a Unix socket."""

    def __init__(self, where, timeout=PATIENCE):
        super().__init__("localhost", timeout=timeout)
        self.where = where

    def connect(self):
        self.sock = plain(self.where, self.timeout)


def plain(where, timeout=PATIENCE):
    """A connected socket that has said nothing."""
    made = socket.socket(socket.AF_UNIX if isinstance(where, str) else socket.AF_INET)
    made.settimeout(timeout)
    made.connect(where if isinstance(where, str) else ("127.0.0.1", where))
    return made


class Answer:
    def __init__(self, response):
        self.status, self.headers, self.text = response.status, response.headers, response.read().decode()

    @property
    def json(self):
        assert self.status == 200, (self.status, self.text)
        return json.loads(self.text)


def get(where, path, method="GET", headers=None):
    """One request in a connection of its own."""
    connection = Connection(where)
    try:
        connection.request(method, path, headers=headers or {})
        return Answer(connection.getresponse())
    finally:
        connection.close()


class Stream:
    """An event stream; frames as (event, id, data)."""

    def __init__(self, where, headers=None):
        self.connection = Connection(where)
        self.connection.request("GET", "/events", headers=headers or {})
        self.response = self.connection.getresponse()
        assert self.response.status == 200, self.response.read()

    def next(self):
        """None: the stream has ended as it should."""
        kind = number = data = None
        while True:
            line = self.response.readline().decode()
            if not line:
                return None
            if line == "\n" and kind:
                return kind, number, json.loads(data)
            name, _, value = line.rstrip("\n").partition(": ")
            kind = value if name == "event" else kind
            number = value if name == "id" else number
            data = value if name == "data" else data

    def until(self, wanted):
        """The first frame that `wanted` takes, and all before it; it may be the end."""
        frames = []
        while True:
            frames.append(self.next())
            if frames[-1] is None or wanted(*frames[-1]):
                return frames

    def close(self):
        self.connection.close()
