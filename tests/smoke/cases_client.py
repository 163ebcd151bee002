"""The client that was written from docs/protocol.md, against a real box."""
from box import Job
from lab import case
from page_member import PageMember
from rack import BOX_MAC, Rack
from workers import finish


def rack_with_hosts(lab, job, **options):
    rack = Rack(lab, [job], **options)
    rack.start()
    for host in rack.hosts:
        host.give_addresses()
        host.namespace.ip(f"neighbour replace 10.0.0.254 lladdr {BOX_MAC} dev eth0",
                          f"neighbour replace fd00::fe lladdr {BOX_MAC} dev eth0")
    return rack


@case()
def client_of_the_page_alone(lab):
    """Two such clients join, sum integers and floats, and leave; every sum is right."""
    job = Job(workers=2, token="s3cret")
    rack = rack_with_hosts(lab, job, mtu=2100)
    for dtype in ("int32", "float32"):
        finish([PageMember(rack.hosts[rank], job, rank, f"--dtype {dtype} --sizes 1000,5 --iterations 2")
                for rank in range(2)])
    rack.stop()
