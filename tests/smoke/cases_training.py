"""PyTorch over kernel sockets: a rank on each host, torch's own rendezvous and gloo through the box's switch."""
from box import Job
from lab import case
from python_ranks import PYTHON, SCRIPTS, expect_good, need_torch, package
from rack import run_rack


def start(rack, job, *arguments, environment=None):
    """train.py on every host of the job."""
    hosts = rack.hosts[:job.workers]
    variables = {"MASTER_ADDR": hosts[0].ipv4, "MASTER_PORT": "29400", "WORLD_SIZE": str(job.workers), "OMP_NUM_THREADS": "1",
                 "GLOO_SOCKET_IFNAME": "eth0", "TALLY_JOB": job.name, "TALLY_SWITCH": rack.address_for(False),
                 "TALLY_JOIN_TIMEOUT": "30", **package(), **(environment or {})}
    return [host.namespace.run(f"rank{rank}", [PYTHON, str(SCRIPTS / "train.py"), *arguments], {**variables, "RANK": str(rank)})
            for rank, host in enumerate(hosts)]


@case()
def torch_groups_through_the_box(lab):
    """new_group() makes groups of the job, which the box admits: their sums go through it, apart from one another."""
    need_torch()
    job = Job(workers=4, admit="{groups: 8, idle: 1s}")
    rack = run_rack(lab, [job])
    programs = start(rack, job, "groups")
    expect_good(programs)
    assert "tally: 100.0 % of" in programs[0].said(), programs[0].said()
    rack.wait_for_log("a group of job 'job'")
    rack.stop()


@case()
def torch_groups_without_admission_go_by_gloo(lab):
    """The box refuses the groups: gloo does their sums, and the reason is the box's."""
    need_torch()
    job = Job(workers=4)
    rack = run_rack(lab, [job])
    programs = start(rack, job, "groups")
    expect_good(programs)
    complaint = programs[0].complained()
    assert "everything goes by the ring" in complaint and "refused the join" in complaint, complaint
    rack.stop()


@case()
def torchrun_starts_ranks_that_sum(lab):
    """A node on each host, two ranks on each node: rank and world are torchrun's, and every rank joins by itself. DDP with
    what people do: accumulation, a layer
    that is not always used, loaders with workers of their own, ranks with different numbers of batches."""
    need_torch()
    job = Job(workers=4)
    rack = run_rack(lab, [job], hosts=4)
    variables = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "eth0", "TALLY_JOB": job.name,
                 "TALLY_SWITCH": rack.address_for(False), "TALLY_JOIN_TIMEOUT": "30", **package()}
    nodes = []
    for node, host in enumerate(rack.hosts[:2]):
        # -r, -t: where torch 1.13 redirects output of no rank, it fails under python 3.11.
        nodes.append(host.namespace.run(f"node{node}", [
            PYTHON, "-m", "torch.distributed.run", "-r", "9:1", "-t", "9:1", "--nnodes", "2", "--node_rank", str(node),
            "--nproc_per_node", "2", "--master_addr", rack.hosts[0].ipv4, "--master_port", "29401",
            str(SCRIPTS / "train.py"), "habits"], variables))
    for node in nodes:
        assert node.wait(120) == 0 and node.said().count("all good") == 2, f"{node.name}:\n{node.said()}{node.complained()}"
    rack.stop()
