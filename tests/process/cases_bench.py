"""tally-bench: against a box on memif, and by itself."""
import dataclasses
import json
import pathlib

from box import Job, cpus_of_ours, run_box
from lab import Skipped, case
from programs import Programs


def run_bench(lab, *arguments):
    """Its program, ended, and the exit code."""
    if not Programs.bench:
        raise Skipped("tally-bench was not built (TALLY_BUILD_BENCH=OFF)")
    program = lab.run("tally-bench", [Programs.bench, *map(str, arguments)], {})
    return program, program.wait(60)


def at_box(box, job, elements=64):
    """Arguments: all workers of the job, each behind a port of its own."""
    words = ["--switch", box.address(), "--address", box.address_of(0), "--job", job.name, "--workers", job.workers,
             "--elements", elements, "--memory", 64 if elements <= 352 else 160]
    for port in range(job.workers):
        words += ["--port", box.device_of(job.first_port + port)]
    return words


def figures_of(lab, name="bench.json"):
    return json.loads(pathlib.Path(lab.directory, name).read_text())


@case()
def bench_checks_every_sum(lab):
    """Half a second as fast as the window allows: all sums right, counted as the box counts, all ranks left."""
    job = Job("bench", workers=3)
    box = run_box(lab, [job])
    file, table = (pathlib.Path(lab.directory, name) for name in ("bench.json", "bench.csv"))
    program, code = run_bench(lab, *at_box(box, job), "--seconds", 0.5, "--warm-up", 0, "--json", file, "--csv", table,
                              "--pid", box.daemon.pid)
    assert code == 0, program.complained()
    run = figures_of(lab)["runs"][0]
    assert run["name"] == "max" and run["sent"] > 0 and run["compared_by_value"] > 0 and run["corrupt"] == 0, run
    assert run["box_cpu_s"] > 0 and run["latency_ns"]["count"] > 0, run
    assert len(table.read_text().splitlines()) == 2
    box.wait_for_log("job 'bench': ended: every rank has left")
    counted = box.stop().jobs["bench"]
    assert counted["results"] * 3 == counted["contributions"] >= run["sent"], counted


def carried(lab, box, job, *arguments, elements=64, name="bench.json"):
    """A short run in which every sum was right and the box counted what the generator did: the whole JSON."""
    before = box.counters().jobs[job.name]["results"]
    file = pathlib.Path(lab.directory, name)
    program, code = run_bench(lab, *at_box(box, job, elements), "--seconds", 0.3, "--warm-up", 0, "--json", file, *arguments)
    assert code == 0, program.complained()
    figures = figures_of(lab, name)
    run = figures["runs"][0]
    assert run["sent"] > 0 and run["compared_by_value"] > 0 and run["corrupt"] == 0, run
    assert figures["elements"] == elements, figures
    results = box.counters().jobs[job.name]["results"] - before
    assert results * job.workers >= run["sent"], (results, run)
    return figures


@case()
def bench_sends_floats_and_checks_their_exponents(lab):
    """dtype float32: the box takes the maximum of the exponents, and the generator believes no other."""
    job = Job("bench", workers=3)
    box = run_box(lab, [job])
    assert carried(lab, box, job, "--dtype", "float32")["dtype"] == "float32"
    box.stop()


@case()
def bench_speaks_ipv6_and_tags(lab):
    """IPv6 by the box's address, with and without a VLAN tag, unicast and multicast, both types."""
    jobs = [Job("one", workers=2), Job("many", workers=2, results="multicast")]
    box = run_box(lab, jobs, ipv6=True)
    for job in jobs:
        for words in ([], ["--vlan", 7, "--dtype", "float32"]):
            figures = carried(lab, box, job, *words)
            assert figures["ipv6"] and figures["vlan"] == (7 if words else None), figures
    box.stop()


@case()
def bench_tags_ipv4(lab):
    """A VLAN tag over IPv4; id 0 is a tag as well."""
    job = Job("bench", workers=2)
    box = run_box(lab, [job])
    for vlan in (0, 4094):
        assert carried(lab, box, job, "--vlan", vlan)["vlan"] == vlan
    box.stop()


@case()
def bench_fills_any_frame(lab):
    """As many values as MTU 1500 carries, and as 9000 does."""
    for mtu, elements, device in ((1500, 352, ""), (9000, 2224, ",bsize=9216")):
        job = Job("bench", workers=2, elements=elements)
        box = run_box(lab, [job], mtu=mtu, device=device)
        carried(lab, box, job, "--mtu", mtu, elements=elements)
        box.stop()


@case(waits=True)
def bench_uses_every_queue(lab):
    """Two data cores and two queues of each port: each core gets the chunks it owns by a queue of its own."""
    job = Job("bench", workers=2)
    box = run_box(lab, [job], data_cores=min(2, len(cpus_of_ours())), queues=2)
    if box.options.data_cores < 2:
        raise Skipped("needs two CPUs for two data cores")
    carried(lab, box, job)
    counted = box.stop()
    assert all(core["frames_in"] > 0 for core in counted.cores), counted.text
    assert counted.core("handed_over") == 0, counted.text


@case(waits=True)
def bench_refuses_what_cannot_be(lab):
    """More elements than the job has, more queues than a port has, and a frame that the MTU does not carry."""
    job = Job("bench", workers=1, elements=64)
    box = run_box(lab, [job])
    program, code = run_bench(lab, *at_box(box, job, 128))
    assert code == 2 and "--elements: job bench has at most 64 elements" in program.complained(), program.complained()
    carried(lab, box, job)  # its rank has left: nothing need time out
    program, code = run_bench(lab, *at_box(box, job, 368))
    assert code == 2 and "--mtu is 1500: 352 at most" in program.complained(), program.complained()
    program, code = run_bench(lab, "--port", "net_ring0,queues=17", *at_box(box, job)[:-2])
    assert code == 2 and "queues each way here: queues=17 is too many" in program.complained(), program.complained()
    words = [f"{word},queues=2" if str(word).startswith("dpdk:") else word for word in at_box(box, job)]
    program, code = run_bench(lab, *words, "--join-timeout", 2)
    assert code == 1 and "the port has 1 queues to it and 1 from it, you have 2 and 2" in program.complained(), program.complained()
    box.stop()


@case(waits=True)
def bench_sends_again_what_is_lost(lab):
    """Frames are lost both ways: results come late, and come; the search says that no rate is without loss."""
    job = Job("bench", workers=2, results="multicast")
    box = run_box(lab, [job], loss="2%")
    file = pathlib.Path(lab.directory, "bench.json")
    program, code = run_bench(lab, *at_box(box, job), "--rate", "20k", "--seconds", 0.5, "--deadline", 10, "--json", file)
    assert code == 0, program.complained()
    run = figures_of(lab)["runs"][0]
    assert run["late_chunks"] > 0 and run["resent"] > 0 and not run["carried"], run
    program, code = run_bench(lab, *at_box(box, job), "--rate", "search", "--seconds", 0.1, "--trial", 0.1,
                              "--warm-up", 0, "--deadline", 10, "--resolution", 0.3)
    assert code == 3, program.complained()
    box.stop()


@case()
def bench_fails_when_results_are_damaged(lab):
    """The box flips bits of what it sends: exit code 1 and a word, unless that is allowed; the figures tell in both cases."""
    job = Job("bench", workers=2)
    box = run_box(lab, [job], impair="out: {corrupt: 5%}")
    file = pathlib.Path(lab.directory, "bench.json")
    words = [*at_box(box, job), "--rate", "5k", "--seconds", 0.4, "--deadline", 5, "--json", file]
    program, code = run_bench(lab, *words)
    assert code == 1 and "DAMAGED RESULTS" in program.complained(), program.complained()
    assert figures_of(lab)["runs"][0]["corrupt"] > 0
    program, code = run_bench(lab, *words, "--allow-damage")
    assert code == 0, program.complained()
    assert figures_of(lab)["runs"][0]["corrupt"] > 0
    box.stop()


@case(waits=True)
def bench_says_why_it_cannot(lab):
    """Wrong words are exit code 2 and a sentence; a box that refuses is exit code 1 and its reason."""
    program, code = run_bench(lab, "--port", "net_memif0,role=server", "--switch", "10.0.0.1", "--address", "10.0.0.10/24")
    assert code == 2 and "--port: role is 'server'" in program.complained(), program.complained()
    program, code = run_bench(lab, "--port", "memory", "--elements", 100)
    assert code == 2 and "multiple of 16" in program.complained(), program.complained()
    program, code = run_bench(lab, "--port", "memory", "--cpu", 4000)
    assert code == 2 and "--cpu" in program.complained(), program.complained()
    program, code = run_bench(lab, "--port", "memory", "--rate", 10, "--seconds", 0.1)
    assert code == 2 and "--rate: two turns of the ring" in program.complained(), program.complained()
    job = Job("bench", workers=2)
    box = run_box(lab, [job])
    program, code = run_bench(lab, *at_box(box, dataclasses.replace(job, name="other")))
    assert code == 1 and "refuses" in program.complained(), program.complained()
    box.stop()


@case(waits=True)
def bench_measures_the_data_plane_in_memory(lab):
    """--port memory needs nothing else: the loop beside its parts, and its latency at half its rate."""
    file = pathlib.Path(lab.directory, "bench.json")
    program, code = run_bench(lab, "--port", "memory", "--workers", 2, "--elements", 64, "--seconds", 0.1, "--warm-up", 0,
                              "--json", file)
    assert code == 0, program.complained()
    runs = {run["name"]: run for run in figures_of(lab)["runs"]}
    assert list(runs) == ["raw add", "port alone", "max", "50 % load"], list(runs)
    assert runs["50 % load"]["latency_ns"]["count"] > 0
    assert runs["max"]["cycles_per_packet"] > 0


@case(waits=True)
def bench_tells_the_cycles_of_each_step(lab):
    """--profile: the steps add up to the whole; first, last and other packets are as many as the chunks; a result is sent to all."""
    file, table = (pathlib.Path(lab.directory, name) for name in ("bench.json", "steps.csv"))
    program, code = run_bench(lab, "--port", "memory", "--workers", 4, "--elements", 64, "--seconds", 0.1, "--warm-up", 0,
                              "--profile", "--profile-csv", table, "--json", file)
    assert code == 0, program.complained()
    profile = figures_of(lab)["profile"]
    steps = {step["step"]: step for step in profile["steps"]}
    assert abs(sum(step["cycles_per_contribution"] for step in steps.values()) - profile["cycles"]) < 0.01, profile
    assert profile["cycles_with_stamps"] > profile["cycles"] > 0 and profile["cycles_of_a_stamp"] > 1, profile
    chunks = steps["values_first"]["events"]
    assert abs(profile["contributions"] - 4 * chunks) < 0.01 * profile["contributions"], steps
    assert abs(steps["values_add"]["events"] - 2 * chunks) < 0.01 * profile["contributions"], steps
    assert abs(steps["conclude"]["events"] - chunks) < 0.01 * profile["contributions"], steps
    for step in ("port_receive", "parse", "registers_last", "verdict_last", "give_back", "port_transmit", "rest"):
        assert step in steps, (step, steps)
    assert len(table.read_text().splitlines()) == 1 + len(steps) + 1


@case(waits=True)
def bench_in_memory_takes_any_workers_and_elements(lab):
    """64, the last of them 252 chunks behind the first, so that results come late; one, whose ring is 25,000 chunks."""
    for workers, elements in ((64, 256), (1, 16)):
        program, code = run_bench(lab, "--port", "memory", "--workers", workers, "--elements", elements, "--seconds", 0.05,
                                  "--warm-up", 0, "--profile")
        assert code == 0, program.complained()
