"""What `make bench` and `make bench-full` run, in this order."""
import dataclasses
import os
import shutil


@dataclasses.dataclass(frozen=True)
class Part:
    """A program of the build (program) or a script of tools/ (script) that writes its results to --json FILE."""
    name: str
    program: str = ""  # below BUILD_DIR
    script: str = ""   # in tools/; it takes BUILD_DIR first
    needs: tuple = ()  # programs below BUILD_DIR that the script starts
    commands: tuple = ()  # programs of the system
    root: bool = False
    hugepages: int = 0  # of 2 MiB, borrowed as root: a walk of the page table for each frame is not what is measured
    quick: tuple = ()  # arguments of `make bench`
    full: tuple = ()   # of `make bench-full`
    only_full: bool = False

    def missing(self, build):
        """Why it cannot run; empty if it can."""
        absent = [need for need in (self.program, *self.needs) if need and not (build / need).exists()]
        if absent:
            return f"{build} has no {', '.join(absent)}; make bench builds it where its packages are installed " \
                   "(tools/packages-bench.txt)"
        commands = [command for command in self.commands if not shutil.which(command)]
        if commands:
            return f"there is no {', '.join(commands)} (tools/packages-bench.txt)"
        if self.root and os.geteuid() != 0:
            return "it needs root, for network namespaces"
        return ""

    def command(self, tools, build, full):
        borrow = [tools / "hugepages", "run", self.hugepages, "--"] if self.hugepages else []
        what = [build / self.program] if self.program else [tools / self.script, build]
        return borrow + what + list(self.full if full else self.quick)


# Cost and, at half the load, the time from the last contribution of a chunk to its result.
LATENCY = ("--port", "memory", "--workers", "8", "--results", "multicast", "--seconds", "3")

PARTS = (
    Part("tally_kernels_bench", program="bench/tally_kernels_bench", quick=("--benchmark_min_time=0.05",)),
    Part("tally_pipeline_bench", program="bench/tally_pipeline_bench"),
    Part("tally_loop_bench", program="bench/loop/tally_loop_bench", hugepages=128),
    Part("tally_steps_bench", program="bench/loop/tally_steps_bench", hugepages=128),
    Part("tally_cores_bench", program="bench/loop/tally_cores_bench", hugepages=128),
    Part("latency", program="bench/tool/tally-bench", hugepages=150, full=LATENCY, quick=LATENCY),
    Part("tally_worker_bench", program="bench/worker/tally_worker_bench"),
    Part("tally_priming_bench", program="bench/tally_priming_bench"),
    Part("tally_control_bench", program="bench/tally_control_bench"),
    Part("tally_publication_bench", program="bench/tally_publication_bench"),
    Part("tally_planner_bench", program="bench/tally_planner_bench"),
    Part("bench-box", script="bench-box", needs=("control/tallyd", "bench/tool/tally-bench"),
         commands=("dpdk-testpmd",), quick=("--ports", "memif")),
    Part("bench-switchml", script="bench-switchml",
         needs=("control/tallyd", "bench/tool/tally-bench", "bench/switchml/tally_switchml_clients"), only_full=True),
    Part("bench-ports", script="bench-ports", root=True, only_full=True, commands=("dpdk-testpmd",),
         needs=("control/tallyd", "host/perf/tally-perf", "bench/tally_udp_bench")),
    Part("bench-rings", script="bench-rings", root=True, only_full=True,
         needs=("control/tallyd", "host/perf/tally-perf", "bench/rings/tally_gloo_ring", "bench/rings/tally_mpi_ring")),
    Part("bench-jct", script="bench-jct", root=True, only_full=True,
         needs=("control/tallyd", "host/ps/tally-ps", "bench/jct/tally_training_rank", "bench/jct/tally_virtual_jct")),
    Part("bench-control", script="bench-control", only_full=True,
         needs=("control/tallyd", "control/tallyctl", "host/perf/tally-perf", "tests/process/tally_test_worker")),
    Part("bench-idle", script="bench-idle", needs=("control/tallyd",), commands=("dpdk-testpmd",)),
)
