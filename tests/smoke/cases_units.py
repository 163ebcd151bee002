"""The units of systemd/ as installed, under a systemd of their own: what they close is closed, and the box works all the same."""
import json
import pathlib

from box import Job
from installed_rack import SOCKET, UNIT, InstalledRack, Trainee, start_trainees
from lab import Skipped, case
from machine import Machine
from programs import wait_until
from socket_worker import SocketWorker, start_sockets
from workers import UNTIL_TOLD, finish, go_on, hugepages_free

PROBE = pathlib.Path(__file__).with_name("unit_probe.py")
STEADY = f"--sizes 50000,353 --gap 20 {UNTIL_TOLD}"
MIXED = "--sizes 100000,353+704+1,16,5000 --iterations 3"
CAPABILITIES = {"NET_ADMIN": 12, "NET_RAW": 13, "IPC_LOCK": 14, "SYS_ADMIN": 21}


def run_installed(machine, jobs, **options):
    """With patience: beside all else on two CPUs a start took 26 s, and the watchdog took it for dead."""
    machine.drop_in(UNIT, "[Service]\nWatchdogSec=90\nTimeoutStartSec=90\n", "98-patience")
    return InstalledRack(machine.lab, jobs, machine, **options).start()


def expect_confined(rack, *capabilities):
    """The daemon that runs is user tally, behind the filter, with these rights and none to gain."""
    assert rack.daemon.user() == ["tally", "tally"], rack.daemon.user()
    status = rack.daemon.status()
    wanted = sum(1 << CAPABILITIES[name] for name in capabilities)
    for held in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
        assert int(status[held][0], 16) == wanted, (held, status[held], capabilities)
    assert status["Seccomp"] == ["2"] and status["NoNewPrivs"] == ["1"], status


def at_work(workers):
    for worker in workers:
        worker.wait_for("iteration", 3, seconds=60)
    return workers


def goes_on(workers):
    counts = [len(worker.events("iteration")) for worker in workers]
    for worker, count in zip(workers, counts):
        worker.wait_for("iteration", count + 3, seconds=60)


@case()
def unit_of_a_memif_box_needs_no_right(lab):
    """Without a capability it serves workers of group tally, and nobody else's. A reload adds a job, a restart ends none,
    a stop is a stop."""
    machine = Machine(lab)
    machine.take("memif")
    job, other = Job("resnet", lease="60s"), Job("bert", first_port=2)
    rack = run_installed(machine, [job], driver="memif", hosts=4, control="group: tally")
    expect_confined(rack)
    workers = at_work(start_trainees(rack, job, STEADY))
    stranger = Trainee(rack, Job("bert"), 1, user="stranger")
    assert stranger.program.wait() != 0 and "Permission denied" in str(stranger.events("error")), stranger.events()
    rack.jobs.append(other)
    rack.reload()
    wait_until("the other job", lambda: "bert" in str(machine.ask("job", "list")))
    finish(start_trainees(rack, other, MIXED), seconds=90)
    first = rack.daemon.pid
    rack.restart()
    assert rack.daemon.pid != first
    expect_confined(rack)
    goes_on(workers)
    machine.call("tallyctl", "restart")
    goes_on(workers)
    go_on(workers)
    finish(workers, seconds=90)
    rack.stop()


@case()
def unit_of_a_box_on_kernel_ports(lab):
    """As it stands, with two rights: hosts behind af_packet, and this machine's own kernel behind a tap."""
    machine = Machine(lab)
    job = Job(workers=3)
    rack = run_installed(machine, [job], driver=("tap", "af_packet", "af_packet"))
    expect_confined(rack, "NET_ADMIN", "NET_RAW")
    finish(start_sockets(rack, job, MIXED), seconds=90)
    rack.stop()


@case()
def unit_of_a_box_on_af_xdp(lab):
    """With af_xdp.conf. The program is on the interface while the box runs, and only then."""
    machine = Machine(lab)
    machine.take("af_xdp")
    job = Job(workers=2)
    rack = run_installed(machine, [job], driver="af_xdp")
    expect_confined(rack, "NET_ADMIN", "NET_RAW", "IPC_LOCK", "SYS_ADMIN")
    finish(start_sockets(rack, job, MIXED), seconds=90)
    assert "xdp" in machine.call("ip", "link", "show", "p0")
    rack.stop()
    wait_until("the end of the program", lambda: "xdp" not in machine.call("ip", "link", "show", "p0"))


@case()
def unit_of_a_box_on_hugepages(lab):
    """User tally takes hugepages without a right, though the files of hugetlbfs are root's."""
    if hugepages_free() < 128 << 20:
        raise Skipped("needs 64 free hugepages of 2 MiB: make test reserves them")
    machine = Machine(lab)
    machine.take("memif")
    job = Job(workers=2)
    rack = run_installed(machine, [job], driver="memif", memory="128MiB", hugepages="on")
    expect_confined(rack)
    finish(start_trainees(rack, job, MIXED), seconds=90)
    rack.stop()


# By number, on x86-64: each of them kills.
FORBIDDEN = {"ptrace": 101, "mount": 165, "reboot": 169, "init_module": 175, "setuid": 105, "add_key": 248, "kexec_load": 246,
             "perf_event_open": 298, "pivot_root": 155, "bpf": 321, "setpriority": 141}
PROBE_AT = "/usr/local/bin/unit_probe"


def probe(machine, unit, word):
    """What the unit's confinement makes of the probe in it: how that ended, and what it said."""
    before = len(machine.said_by(unit))
    machine.call("systemctl", "set-environment", f"PROBE={word}")
    machine.call("systemctl", "start", unit, fails=True)
    result = tuple(machine.property(unit, name) for name in ("Result", "ExecMainStatus"))
    machine.call("systemctl", "reset-failed", unit, fails=True)
    return result, machine.said_by(unit)[before:]


def expect_closed(machine, unit, families=(), devices=(), places=("/run/tally/ours", "/tmp/ours"), spared=(), iopl_kills=False):
    """Nothing but these; and every call that is not spared kills. iopl is refused, or kills too."""
    machine.drop_in(unit, "[Service]\nType=oneshot\nExecStartPre=\nExecStart=\n"
                          f"ExecStart={PROBE_AT} $PROBE\nRestart=no\nWatchdogSec=0\nEnvironmentFile=\n")
    result, said = probe(machine, unit, "report" if iopl_kills else "report-iopl")
    assert result == ("success", "0"), (result, said)
    report = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
    assert report == {"families": list(families), "files": [], "places": list(places), "devices": list(devices),
                      "code that is written": [], "iopl": False, "other users' processes": []}, (unit, report)
    for name, number in {**FORBIDDEN, **({"iopl": 172} if iopl_kills else {})}.items():
        result, said = probe(machine, unit, number)
        killed = result[0] in ("signal", "core-dump") and result[1] == "31"  # SIGSYS
        assert killed == (name not in spared), f"{unit}: {name}: {result}: {said}"


@case()
def unit_of_the_box_closes_what_it_does_not_need(lab):
    """A program that was broken into: system calls that a box does not make end it; sockets, files, devices and processes that it
    does not need are not there. The same with what af_xdp.conf opens and memif.conf closes."""
    machine = Machine(lab)
    machine.install(PROBE, PROBE_AT)
    # Its planner makes itself nicer than all others.
    expect_closed(machine, UNIT, families=["AF_PACKET"], devices=["/dev/net/tun"], spared=["setpriority"])
    machine.take("af_xdp")
    expect_closed(machine, UNIT, families=["AF_XDP", "AF_PACKET"], devices=["/dev/net/tun"], spared=["bpf", "setpriority"])
    machine.leave("af_xdp")
    machine.take("memif")
    expect_closed(machine, UNIT, spared=["setpriority"])


@case()
def units_beside_the_box_close_what_they_do_not_need(lab):
    """tally-ps, and the session service where it is built: neither sees more than sockets of the Internet and of the box."""
    machine = Machine(lab)
    machine.install(PROBE, PROBE_AT)
    machine.write("/etc/tally/switchml.yaml", "")
    for unit in ("tally-ps@0.service", "tally-switchml.service"):
        if unit == "tally-ps@0.service" or (machine.root / "lib/systemd/system" / unit).exists():
            expect_closed(machine, unit, places=["/tmp/ours"], iopl_kills=unit == "tally-switchml.service")


@case()
def unit_of_a_box_that_ran_as_root_takes_over(lab):
    """From the unit of 0.1.0 to this one under a running job: the folder of the jobs, which was root's, is the user's, and no
    job is lost."""
    machine = Machine(lab)
    machine.drop_in(UNIT, "[Service]\nUser=root\nGroup=root\nCapabilityBoundingSet=\nCapabilityBoundingSet=CAP_SYS_ADMIN CAP_IPC_LOCK "
                          "CAP_SYS_NICE CAP_NET_ADMIN CAP_NET_RAW CAP_DAC_OVERRIDE\n")
    rack = run_installed(machine, [Job("bert", lease="60s")], driver="memif", hosts=4)
    assert rack.daemon.user() == ["root", "root"]
    job = Job("resnet", first_port=2, lease="60s")
    machine.call("tallyctl", "--socket", SOCKET, "job", "add", "name=resnet", "workers=2", "token_file=none", "lease=60s")
    workers = at_work([Trainee(rack, job, rank, STEADY, user="root") for rank in range(2)])
    assert machine.call("find", "/var/lib/tally", "-user", "root", "-name", "*.jobs.json").strip()
    machine.call("rm", f"/etc/systemd/system/{UNIT}.d/99-test.conf")
    machine.take("memif")
    rack.restart()
    expect_confined(rack)
    goes_on(workers)
    foreign = machine.call("find", "/var/lib/tally", "/run/tally", "!", "-user", "tally")
    assert not foreign, f"not the user's: {foreign}"
    machine.call("tallyctl", "--socket", SOCKET, "job", "set", "resnet", "priority=200")  # it is kept in that file
    go_on(workers)
    finish(workers, seconds=90)
    rack.stop()
    rack.start()
    shown = machine.ask("--socket", SOCKET, "job", "show", "resnet")
    assert shown["made_by"] == "job.add" and shown["priority"] == 200, shown
    rack.stop()


@case()
def units_of_parameter_servers_serve(lab):
    """Two instances of tally-ps@ sum what finds no slot: one over memif, one over the machine's own sockets, through a tap."""
    machine = Machine(lab)
    job = Job(discipline="shared", elements=32, servers=2)
    rack = run_installed(machine, [job], driver=("memif", "memif", "memif", "tap"), shared_slots=8)
    transports = rack.device_of(2), "udp"
    addresses = rack.address_of(2), rack.hosts[3].ipv4
    for index, (transport, address) in enumerate(zip(transports, addresses)):
        machine.write(f"/etc/tally/ps-{index}.conf",
                      f"TALLY_PS=--transport {transport} --box {rack.address()} --address {address} --job job:{index}\n")
        machine.call("systemctl", "start", f"tally-ps@{index}")
    finish(start_trainees(rack, job, "--sizes 10000,353 --iterations 3"), seconds=90)
    line = rack.counters().slots[job.name]
    assert line["served"] > 0 and line["denied"] + line["evicted"] > 0, line
    for index in range(2):
        unit = f"tally-ps@{index}.service"
        assert machine.property(unit, "ActiveState") == "active" and machine.property(unit, "NRestarts") == "0", machine.said_by(unit)
        machine.call("systemctl", "stop", unit, seconds=60)
        assert machine.property(unit, "Result") == "success", machine.said_by(unit)
        assert "0 chunks" not in machine.said_by(unit).splitlines()[-1], machine.said_by(unit)
    rack.stop()


@case()
def unit_of_hugepages_gives_back_what_it_took(lab):
    """It may write the kernel's number of pages (and writes here what stands there), adds and takes away what its name says, and
    a folder of hugetlbfs is group tally's for as long."""
    machine = Machine(lab)
    machine.call("systemctl", "start", "tally-hugepages@0")
    kind = machine.call("findmnt", "--noheadings", "--output", "FSTYPE,OPTIONS", "/run/hugepages/tally")
    assert kind.startswith("hugetlbfs") and "pagesize=2M" in kind, kind
    assert machine.call("stat", "--format=%G %a", "/run/hugepages/tally").strip() == "tally 770"
    machine.call("systemctl", "stop", "tally-hugepages@0")
    wait_until("the end of the folder", lambda: machine.call("findmnt", "/run/hugepages/tally", fails=True) == "")
    pool = "/run/tally-test/nr_hugepages"  # for the kernel's, which is everybody's
    machine.write(pool, "10\n")
    machine.drop_in("tally-hugepages@.service", f"[Service]\nEnvironment=POOL={pool}\nReadWritePaths={pool}\n")
    machine.call("systemctl", "start", "tally-hugepages@256")
    assert machine.call("cat", pool) == "266\n"
    machine.write(pool, "300\n")  # somebody else's meanwhile
    machine.call("systemctl", "stop", "tally-hugepages@256")
    assert machine.call("cat", pool) == "44\n"
    said = machine.call("systemctl", "start", "tally-hugepages@many", fails=True)
    assert "failed" in said and machine.call("cat", pool) == "44\n", said
