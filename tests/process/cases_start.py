"""How tallyd begins and ends: what --check --here finds, who is in the way, signals."""
import datetime
import os
import pathlib
import signal
import subprocess
import time

from box import Job, run_box
from etcd import Tls
from lab import case
from programs import Programs, Stopwatch, wait_until
from workers import UNTIL_TOLD, finish, go_on, start_job

HERE = """instance: check{pid}
dataplane: {{cores: [{cpu}, 1000], memory: 128MiB, slots: 16MiB, hugepages: off, eal: ["--log-level=6", "--nonsense"]}}
box: {{ipv4: 10.0.0.1/24}}
control: {{state: {directory}/nowhere}}
ports:
  - {{name: w0, device: "net_af_packet0,iface=nowhere0"}}
  - {{name: w1, device: "net_memif1,role=server,id=1,socket={directory}/none/x.sock,socket-abstract=no"}}
  - {{name: w2, device: "0000:ff:1f.7"}}
jobs: [{{name: a, workers: 2, token_file: none}}]
"""


def check(path, *more):
    done = subprocess.run([Programs.tallyd, "--check", *more, "--config", str(path)], capture_output=True, text=True,
                          timeout=Programs.patience(60), check=False)
    return done.returncode, done.stdout + done.stderr


@case("address")
def check_here_finds_what_the_text_does_not_tell(lab):
    """CPUs, interfaces, directories of sockets, PCI devices, EAL arguments, memory: each with its line and column."""
    path = pathlib.Path(lab.directory, "here.yaml")
    cpu = min(os.sched_getaffinity(0))
    text = HERE.format(pid=os.getpid(), cpu=cpu, directory=lab.directory)
    path.write_text(text)
    code, said = check(path)
    assert code == 0 and "good" in said, said
    code, said = check(path, "--here")
    assert code == 1, said
    for word, message in (("1000", "dataplane.cores[1]: CPU 1000 does not exist here"),
                          ('"--nonsense"', "dataplane.eal[1]: DPDK's EAL does not start with this: tallyd: unrecognized "
                                           "option '--nonsense'"),
                          ("iface=nowhere0", "ports[0].device: there is no network interface nowhere0"),
                          ("socket=", f"ports[1].device: there is no directory '{lab.directory}/none'"),
                          (f"{lab.directory}/nowhere", f"control.state: {lab.directory}/nowhere is no folder in which tallyd may write"),
                          ('"0000:ff:1f.7"', "ports[2].device: there is no PCI device 0000:ff:1f.7")):
        before = text[:text.index(word)]
        place = f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}: error: "
        assert place + message in said, (place + message, said)
    path.write_text(text.replace("128MiB", "1000GiB"))
    _, said = check(path, "--here")
    assert f"{path}:2:{text.splitlines()[1].index('128MiB') + 1}: error: dataplane.memory: 1000GiB is more than" in said, said


@case()
def check_here_reads_the_files_of_the_fleet(lab):
    """Password, certificates and key, as the client of etcd reads them: what is missing, a folder, or something else than it
    should be, is said with its line and column. Right ones are good, and so is a link to one."""
    tls = Tls(lab)
    path = pathlib.Path(lab.directory, "fleet.yaml")
    folder = pathlib.Path(lab.directory)
    text, empty, secret = folder / "text", folder / "empty", folder / "password"
    text.write_text("this is no certificate\n")
    empty.write_text("")
    secret.write_text("etcd's\n")
    link = folder / "link"
    link.symlink_to(tls.path("ca"))
    locked = folder / "locked.key"
    tls.openssl("ec", "-in", tls.path("client", "key"), "-aes128", "-passout", "pass:secret", "-out", str(locked))
    right = {"password_file": secret, "ca": link, "cert": tls.path("client"), "key": tls.path("client", "key")}

    def said_of(**other):
        files = {**right, **other}
        lines = ["instance: check" + str(os.getpid()),
                 f"dataplane: {{cores: [{min(os.sched_getaffinity(0))}], memory: 128MiB, slots: 16MiB, hugepages: off}}",
                 "box: {ipv4: 10.0.0.1/24}",
                 'ports: [{name: w0, device: "net_memif0,role=server"}]',
                 "jobs: [{name: a, workers: 2, token_file: none}]",
                 "fleet:", "  endpoints: [https://127.0.0.1:1]", "  user: box"]
        lines += [f"  {key}: {file}" for key, file in files.items() if file is not None]
        path.write_text("\n".join(lines) + "\n")
        code, said = check(path)
        assert code == 0, said
        code, said = check(path, "--here")
        places = {key: f"{path}:{n + 1}:{line.index(':') + 3}: error: fleet.{key}: "
                  for n, line in enumerate(lines) for key in [line.split(":")[0].strip()] if key in files}
        return code, said, places

    code, said, _ = said_of()
    assert code == 0 and "good" in said, said
    code, said, _ = said_of(cert=None, key=None)
    assert code == 0, said
    for key, file, message in (
            ("password_file", folder / "none", "cannot read"),
            ("password_file", empty, "is empty"),
            ("ca", folder / "none", "cannot read"),
            ("ca", folder, "cannot read"),
            ("ca", text, "holds no certificates in PEM"),
            ("ca", empty, "holds no certificates in PEM"),
            ("ca", tls.path("ca", "key"), "holds no certificates in PEM"),
            ("cert", folder / "none", "cannot read"),
            ("cert", text, "holds no certificate in PEM"),
            ("key", folder / "none", "cannot read"),
            ("key", text, "holds no key in PEM"),
            ("key", tls.path("client"), "holds no key in PEM"),
            ("key", locked, "that has no password"),
            ("key", tls.path("server", "key"), f"is not the key of '{tls.path('client')}'")):
        code, said, places = said_of(**{key: file})
        assert code == 1 and said.count("error:") == 1, (key, file, said)
        assert places[key] in said and message in said and str(file) in said, (places[key], message, said)


@case("address")
def check_here_leaves_a_running_box_alone(lab):
    """Asked about the very configuration of a box at work, again and again: good, and no sum is late or wrong."""
    job = Job(workers=2)
    box = run_box(lab, [job], eal=["--log-level=6"])
    workers = start_job(box, job, f"--sizes 20000 --gap 5 {UNTIL_TOLD}")
    for _ in range(3):
        code, said = check(box.config, "--here")
        assert code == 0, said
    for worker in workers:
        worker.wait_for("iteration", len(worker.events("iteration")) + 2)
    go_on(workers)
    finish(workers)
    box.stop()


@case(waits=True)
def two_daemons_of_one_instance(lab):
    """The second is refused by the name and the process of the first, however often it is tried; after kill -9 the
    name is free at once."""
    box = run_box(lab, [Job()])
    first = box.daemon
    for _ in range(70):  # more than the kernel keeps of those who ask
        done = subprocess.run([Programs.tallyd, "--config", str(box.config)], capture_output=True, text=True,
                              timeout=Programs.patience(30), check=False)
        assert done.returncode == 1, done.stderr
        assert f"instance: the name test{os.getpid()} is in use by" in done.stderr, done.stderr
    time.sleep(1.5)
    second = box.launch()
    assert second.wait() == 1
    name = f"instance: the name test{os.getpid()} is in use by process {first.pid} (tallyd): stop that daemon, or give"
    assert name in second.complained(), second.complained()
    box.daemon = first
    box.kill()
    box.start()
    box.stop()


@case()
def second_signal_ends_at_once(lab):
    """SIGTERM twice in a moment, as timeout(1) and others send it, is one: the job may go on. One more ends the box
    within half a second."""
    job = Job(workers=2)
    box = run_box(lab, [job])
    for worker in start_job(box, job, f"--sizes 20000 --gap 5 {UNTIL_TOLD}"):
        worker.wait_for("iteration", 3)
    daemon = box.daemon
    daemon.signal(signal.SIGTERM)
    daemon.signal(signal.SIGINT)
    box.wait_for_log("may go on for")
    time.sleep(0.7)
    assert daemon.runs() and "stopping at once" not in daemon.complained(), daemon.complained()
    watch = Stopwatch(daemon)
    daemon.signal(signal.SIGTERM)
    # Looked at for as long as its threads are there to be asked.
    wait_until("its end", lambda: watch.starved() >= 0 and not daemon.runs())
    assert daemon.wait() == 0
    # By the daemon's own clock: how fast the kernel then takes a process apart is the machine's affair.
    lines = daemon.complained().splitlines()
    at = {word: next(datetime.datetime.fromisoformat(line[:23]) for line in lines if word in line)
          for word in ("stopping at once: workers are not told", "info    ended")}
    took = (at["info    ended"] - at["stopping at once: workers are not told"]).total_seconds() - watch.starved()
    assert took <= Programs.patience(0.5), f"it took {took:.3f} s"
