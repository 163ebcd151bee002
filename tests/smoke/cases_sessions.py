"""SwitchML's clients, as they behave, against tallyd over af_packet: they send frames by a socket of their own on a veth."""
from lab import case
from rack import Rack
from sessions import ALL, OPERATIONS, Matrix, expect_right, play


class SessionRack(Rack):
    """All sessions behind port 0; they bring no hosts of their own."""

    def __init__(self, lab, matrix, hosts=1, **options):
        super().__init__(lab, matrix.sessions(), hosts=hosts, addresses=False, **options)


def play_from_hosts(lab, matrix, rack, *arguments):
    host = rack.hosts[0]
    return play(lab, matrix, ["net_af_packet0,iface=eth0"], *arguments, run=host.namespace.run, operations=OPERATIONS)[0]


@case(waits=True)
def switchml_clients_of_every_shape_on_af_packet(lab):
    """As on memif: 32 sessions, every sum and every byte of every reply."""
    rack = SessionRack(lab, ALL).start()
    expect_right(play_from_hosts(lab, ALL, rack, "--timeout", 5), 32)
    counted = rack.stop()
    assert all(counted.jobs[session.name]["results"] > 0 for session in rack.jobs), counted.text


@case()
def switchml_clients_on_af_xdp(lab):
    """A port of the box that is not af_packet's, with loss."""
    matrix = Matrix(workers=(2, 3), threads=(2,), losses=("0", "1%"))
    rack = SessionRack(lab, matrix, driver="af_xdp").start()
    expect_right(play_from_hosts(lab, matrix, rack, "--timeout", 20), 4)
    rack.stop()
