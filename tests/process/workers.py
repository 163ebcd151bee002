"""Workers: tally_test_worker processes and what they say."""
import json
import os

from programs import Programs, Stopwatch, wait_until


class TestWorker:
    """One rank of a job, and neighbours: more ranks in its process. Its words on stdout are events (worker_report.h)."""

    def __init__(self, box, job, rank, script="", port=None, environment=None, name=None, neighbours=()):
        port = job.first_port + rank if port is None else port
        variables = {
            "TALLY_JOB": job.name, "TALLY_TOKEN": job.token, "TALLY_RANK": str(rank),
            "TALLY_WORLD": str(job.workers), "TALLY_SWITCH": box.address(), "TALLY_ADDRESS": box.address_of(port),
            "TALLY_MTU": str(box.options.mtu), "TALLY_TRANSPORT": box.device_of(port), "TALLY_DEBUG": "INFO",
            "TALLY_JOIN_TIMEOUT": "30",
        }
        variables.update(environment or {})
        self.job, self.rank = job, rank
        self.name = name or f"{job.name}.{rank}".replace("/", "-")
        worker = box.lab.path_of(Programs.worker)
        command = [worker, *script.split()]
        for other in neighbours:
            port = job.first_port + other
            command += ["--neighbour", f"{other} {box.device_of(port)} {box.address_of(port)}"]
        self.program = box.lab.run(self.name, command, variables)
        self.pid = self.program.pid

    def events(self, kind=None):
        lines = self.program.said().split("\n")[:-1]  # what stands behind the last line end is not complete
        events = [json.loads(line) for line in lines if line]
        return [event for event in events if kind in (None, event["event"])]

    def wait_for(self, kind, count=1, seconds=60):
        """The count-th event of a kind."""
        def there():
            found = self.events(kind)
            if len(found) >= count:
                return found[count - 1]
            if not self.program.runs() and len(self.events(kind)) < count:
                raise AssertionError(f"{self.name} ended with {self.program.process.returncode} before its "
                                     f"'{kind}' number {count}")
            return None

        return wait_until(lambda: f"'{kind}' number {count} of {self.name}", there, seconds)

    def error(self, seconds=60):
        return self.wait_for("error", seconds=seconds)

    def statistics(self):
        return self.events("statistics")[-1]

    def crcs(self, rank=None):
        """By iteration; rank: of a neighbour."""
        return [event["crc"] for event in self.events("iteration") if event["rank"] == (rank or self.rank)]

    def go_on(self):
        """Ends a pause, or work UNTIL_TOLD."""
        self.program.write_line()

    def signal(self, number):
        self.program.signal(number)


# At work until go_on(), however slow or fast the machine is: then all ranks end after the same iteration.
UNTIL_TOLD = "--iterations 1000000 --until-told yes"


def start_job(box, job, script="", environment=None):
    """All workers of a job."""
    return [TestWorker(box, job, rank, script, environment=environment) for rank in range(job.workers)]


def go_on(workers):
    """Ends a pause of all of them, or their work UNTIL_TOLD."""
    for worker in workers:
        worker.go_on()


def finish(workers, seconds=60):
    """All end well: with 0, every sum right, the same bits everywhere. Returns their results, by iteration."""
    for worker in workers:
        code = worker.program.wait(seconds)
        errors = worker.events("error")
        assert code == 0 and not errors, f"{worker.name} ended with {code}: {errors}"
        wrong = [event for event in worker.events("iteration") if event["wrong"]]
        assert not wrong, f"{worker.name}: wrong sums: {wrong}"
    first = workers[0].crcs()
    assert first, f"{workers[0].name} did nothing"
    for worker in workers:
        assert worker.crcs() == first, f"{worker.name} and {workers[0].name} have different bits"
    return first


def total(workers, key):
    return sum(worker.statistics()[key] for worker in workers)


def hugepages_free():
    """In bytes, of the default size."""
    with open("/proc/meminfo", encoding="ascii") as file:
        words = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return words.get("HugePages_Free", 0) * words.get("Hugepagesize", 0) * 1024


def is_root():
    return os.geteuid() == 0


def kill_rank_1(box, workers, lease):
    """kill -9 of it; the others are told of it within the lease (of so many seconds) and one more."""
    others = [workers[0], *workers[2:]]
    watch = Stopwatch(box.daemon, *(worker.program for worker in others))
    workers[1].program.kill()
    for worker in others:
        error = worker.error()
        assert error["code"] == "aborted" and "rank 1" in error["text"], error
        late = watch.seconds(error["ms"] / 1000)
        assert late <= lease + Programs.patience(1), f"{worker.name} was told only {late:.2f} s after the death"
        assert worker.program.wait() == 1
