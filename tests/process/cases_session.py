"""Sessions of SwitchML's clients: declared in the configuration, beside native jobs. Their packets: the client
simulator's tests."""
import dataclasses
import re
import signal

import counters
from box import Job, run_box
from lab import case
from workers import finish, start_job


@dataclasses.dataclass
class Session:
    """As Job, for a box: a client on each of the ports first_port, first_port + 1, ..."""
    name: str = "legacy"
    workers: int = 2  # members
    slots: int = 64
    payload: int = 1024
    first_port: int = 0
    servers: int = 0

    def yaml(self, _lab):
        hosts = range(self.first_port + 1, self.first_port + 1 + self.workers)
        members = ", ".join(f"{{rank: {rank}, mac: 02:00:00:00:00:{host:02x}, ipv4: 10.0.0.{host}}}"
                            for rank, host in enumerate(hosts))
        return (f"  - {{name: {self.name}, dialect: switchml, slots: {self.slots}, payload: {self.payload}, "
                f"members: [{members}]}}")


def members_of(box, name):
    """(TSI rule, MAC, address, rank, UDP port) of each."""
    shown = counters.call(box.control, "job.show", name=name)
    return [(shown["session"]["tsi"], rank["mac"], rank["address"], rank["rank"], rank["udp_port"])
            for rank in shown["ranks"]]


@case("release", "address", waits=True)
def session_runs_from_its_declaration(lab):
    """It runs without a packet, the counters name its members, and a worker that asks to join it is told what it is."""
    job, session = Job(workers=2), Session()
    box = run_box(lab, [job, session], data_cores=2)
    box.wait_for_log("job 'legacy': running, a session of SwitchML's clients: ")
    assert members_of(box, "legacy") == [("packet", "02:00:00:00:00:03", "10.0.0.3", 0, 48864),
                                         ("packet", "02:00:00:00:00:04", "10.0.0.4", 1, 48864)], members_of(box, "legacy")
    assert box.counters().jobs["legacy"]["phase"] == "running"
    stranger = start_job(box, Job("legacy", workers=1, first_port=2), "--sizes 1000 --iterations 1")[0]
    box.wait_for_log("job 'legacy' is a session of SwitchML's clients (dialect: switchml)")
    assert stranger.program.wait() != 0
    finish(start_job(box, job, "--sizes 5000 --iterations 3"))
    counted = box.stop()
    assert counted.jobs["legacy"]["phase"] == "ended", counted.text
    assert "job 'legacy': ended" in box.daemon.complained()


@case("address")
def session_reloaded_in_and_out(lab):
    """SIGHUP: one comes, changes and goes, others wait for memory; the native job beside it does not notice."""
    job, session = Job(workers=2, window=2048), Session()
    box = run_box(lab, [job], spare_ports=2)
    workers = start_job(box, job, "--sizes 5000 --iterations 3 --pause 1,2")
    for worker in workers:
        worker.wait_for("paused")
    session.first_port = 2
    box.jobs.append(session)
    box.reload()
    box.wait_for_log("job 'legacy' is declared: a session")
    box.wait_for_log("2 members, 64 slots of 1024 bytes (144 KiB of slot memory per core), tsi packet, all on core 0")
    session.payload = 256
    box.reload()
    box.wait_for_log("reload: sessions are declared again, what they had begun is lost: jobs[1].payload")
    box.wait_for_log("2 members, 64 slots of 256 bytes")
    # 2 x 6,500 entries of 1,152 bytes are 14.3 of the 16 MiB: room beside the job's smallest window, not beside this one.
    second = Session("second", workers=1, slots=6_500, first_port=9)
    box.jobs.append(second)
    box.reload()
    box.wait_for_log("job 'second' is declared: a session")
    box.wait_for_log("job 'second': admission: 6500 slots of 1024 bytes for 1 members take 14625 KiB of slot memory per core; ")
    third = Session("third", workers=1, slots=6_500, first_port=19)
    box.jobs[2:] = [third]
    good = box.yaml()
    box.config.write_text(good.replace("payload: 256", "payload: 257"))
    box.daemon.signal(signal.SIGHUP)
    box.wait_for_log("257 is no size of SwitchML's packets; write 128, 256, 512 or 1024")
    box.reload()
    box.wait_for_log("job 'second' is gone from the configuration")
    box.wait_for_log("job 'third': admission: ")
    for count in (1, 2):
        for worker in workers:
            worker.wait_for("paused", count)
            worker.go_on()
    finish(workers)
    assert all(worker.statistics()["epochs"] == 1 for worker in workers)
    assert not re.search("job '(second|third)': running", box.daemon.complained()), box.daemon.complained()
    box.jobs[1:] = []
    box.reload()
    box.wait_for_log("job 'legacy' is gone from the configuration")
    box.wait_for_log("job 'third': ended")
    box.stop()
