"""Who speaks with etcd for a fleet: tally_fleet_caller, as a client and as a member."""
import itertools
import json
import os

from programs import Programs, wait_until


def settings_of(*servers, **more):
    return {"endpoints": [server if isinstance(server, str) else server.endpoint for server in servers], **more}


def caller():
    return os.path.join(Programs.build, "tests", "process", "tally_fleet_caller")


class Speaker:
    """A process that is told lines and says lines of JSON."""

    def __init__(self, lab, name, mode, settings, *arguments):
        self.program = lab.run(name, [caller(), mode, json.dumps(settings), *arguments])
        self.read = 0
        self.lines = []

    def tell(self, line):
        self.program.process.stdin.write(line.encode() + b"\n")
        self.program.process.stdin.flush()

    def said(self):
        """All lines until now."""
        text = self.program.said()
        end = text.rfind("\n") + 1
        self.lines += [json.loads(line) for line in text[self.read:end].splitlines()]
        self.read = end
        return self.lines

    def wait_for(self, what, condition, seconds=60):
        """The first line for which condition(line) is true."""
        def look():
            assert self.program.runs(), f"it ended; {self.program.complained()}"
            return next((line for line in self.said() if condition(line)), None)
        return wait_until(lambda: f"{what}; it said {self.said()[-5:]}", look, seconds)

    def end(self, seconds=60):
        self.program.process.stdin.close()
        assert self.program.wait(seconds) == 0, self.program.complained()


class Client(Speaker):
    """A client of etcd."""

    def __init__(self, lab, settings, name="client"):
        super().__init__(lab, name, "calls", settings)
        self.ids = itertools.count(1)

    def send(self, op, **parameters):
        """The request's id."""
        number = next(self.ids)
        self.tell(json.dumps({"id": number, "op": op, **parameters}))
        return number

    def answer(self, number, seconds=60):
        return self.wait_for(f"the answer to request {number}", lambda line: line.get("id") == number, seconds)

    def ask(self, op, **parameters):
        return self.answer(self.send(op, **parameters))

    def do(self, op, **parameters):
        """As ask(); it must be done."""
        answer = self.ask(op, **parameters)
        assert "fault" not in answer, answer
        return answer

    def watch(self, prefix, start):
        return self.ask("watch", prefix=prefix, **{"from": start})["watching"]

    def changes(self, watch):
        """Of a watch, in their order."""
        return [change for line in self.said() if line.get("watch") == watch for change in line.get("changes", [])]


class Member(Speaker):
    """A member of a fleet without a box; its lease is of five seconds."""

    def __init__(self, lab, settings, member_id, prefix="/tally"):
        super().__init__(lab, f"member-{member_id}", "member", settings, prefix, member_id)
        self.member_id = member_id

    def state(self):
        return next((line["state"] for line in reversed(self.said()) if "state" in line), {})

    def wait_state(self, what, condition, seconds=60):
        def look():
            assert self.program.runs(), f"{self.member_id} ended; {self.program.complained()}"
            state = self.state()
            return state and condition(state)
        wait_until(lambda: f"{what}; {self.member_id} is {self.state()}", look, seconds)

    def notes(self):
        return [line["note"] for line in self.said() if "note" in line]

    def outcomes(self):
        return [line for line in self.said() if "outcome" in line]
