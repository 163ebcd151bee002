"""SwitchML's clients, as they behave, against tallyd over memif; and the program that plays them by itself."""
import os
import pathlib

import counters
from lab import case, Skipped
from programs import Programs, wait_until
from sessions import ALL, OPERATIONS, Matrix, SessionBox, expect_right, play


@case(waits=True)
def switchml_clients_of_every_shape(lab):
    """2, 3, 8, 16 workers x 1, 4 threads x 64, 256 elements x no loss, 1 %: int32 and float32, odd sizes, each a session."""
    box = SessionBox(lab, ALL).start()
    sessions, _ = play(lab, ALL, [box.device()], "--timeout", 5, operations=OPERATIONS)
    expect_right(sessions, 32)
    counted = box.stop()
    assert all(counted.jobs[session.name]["results"] > 0 for session in box.jobs), counted.text


def expect_seen(box, name):
    """The box knows when it heard of each member, also of a session that is gone."""
    ranks = counters.call(box.control, "job.show", name=name)["ranks"]
    assert ranks and all(rank["seen_ns_ago"] is not None for rank in ranks), ranks


@case(waits=True)
def switchml_clients_on_ports_of_their_own(lab):
    """Three members on three ports, which lose frames in the box as well."""
    matrix = Matrix(workers=(3,), threads=(2,), losses=("0.5%",))
    box = SessionBox(lab, matrix, ports=3, loss="1%").start()
    sessions, _ = play(lab, matrix, [box.device(port) for port in range(3)], "--timeout", 5, operations=OPERATIONS)
    expect_right(sessions, 1)
    expect_seen(box, "s0")
    counted = box.stop()
    assert counted.core("lost_on_purpose_in") > 0 and counted.core("lost_on_purpose_out") > 0, counted.text
    assert counted.jobs["s0"]["phase"] == "ended", counted.text


@case(waits=True)
def switchml_members_of_a_session_that_is_gone(lab):
    """SIGHUP takes one of two sessions away: the counters go on to show when its members were seen."""
    matrix = Matrix(payloads=(256, 1024))
    box = SessionBox(lab, matrix).start()
    sessions, _ = play(lab, matrix, [box.device()], operations=("int32:1000",))
    expect_right(sessions, 2)
    del box.jobs[0]
    box.reload()
    box.wait_for_log("job 's0' is gone from the configuration")
    box.wait_for_log("job 's0': ended")
    counted = box.counters()
    assert [counted.jobs[name]["phase"] for name in ("s0", "s1")] == ["gone", "running"], counted.text
    expect_seen(box, "s0")
    box.stop()


@case(waits=True)
def switchml_clients_that_believe_repeated_results(lab):
    """As observed, 63 of 64 repeated results count as new ones: without loss the box must not send any."""
    matrix = Matrix(workers=(2, 3), threads=(1, 4))
    box = SessionBox(lab, matrix).start()
    sessions, _ = play(lab, matrix, [box.device()], "--guard", "observed", "--timeout", 5000, operations=OPERATIONS)
    expect_right(sessions, 4)
    assert all(session["repeated_replies"] == 0 for session in sessions.values()), sessions
    box.stop()


@case(waits=True)
def switchml_stale_packets_are_not_added(lab):
    """Small operations leave timers running: old packets come with the values of today, and change no sum."""
    matrix = Matrix(workers=(2, 3))
    box = SessionBox(lab, matrix).start()
    sessions, _ = play(lab, matrix, [box.device()], "--timeout", 0.05, "--repeat", 300,
                       operations=("int32:1300", "int32:1", "float32:1000", "int32:300"))
    expect_right(sessions, 2)
    assert all(session["stale"] > 0 for session in sessions.values()), sessions
    box.stop()


@case(waits=True)
def switchml_members_that_are_late(lab):
    """By 1.5 and 3 s, and the others' timers say one too much, as published: every sum is right."""
    operations = ("int32:17000", "int32:100", "float32:20001")
    for tsi, timers in (("packet", "observed"), ("opaque", "own")):
        matrix = Matrix(tsi=tsi)
        box = SessionBox(lab, matrix).start()
        sessions, _ = play(lab, matrix, [box.device()], "--timeout", 50, "--timers", timers, "--unjudged", "--late", "1,0,1.5",
                           "--late", "0,2,3", operations=operations)
        for session in sessions.values():
            assert session["wrong"] == "" and session["resent"] > 0, session
        box.stop()


@case(waits=True)
def switchml_clients_start_again(lab):
    """The same clients a second time, with other values and numbers from 0 again: in another run the sums are the new ones."""
    matrix = Matrix(workers=(2, 3), threads=(2,))
    box = SessionBox(lab, matrix).start()
    for life in range(2):
        if life > 0:
            for session in box.jobs:
                session.run = life
            box.reload()
            for session in box.jobs:
                box.wait_for_log(f"job '{session.name}' begins anew: run {life}")
                wait_until("its new epoch", lambda words=f"job '{session.name}': running": box.daemon.complained().count(words) > life)
        sessions, _ = play(lab, matrix, [box.device()], "--seed", 100 + life, operations=OPERATIONS)
        expect_right(sessions, 2)
    box.stop()


@case(waits=True)
def switchml_clients_without_a_reset_are_refused_and_named(lab):
    """The same clients a second time in the same run: not one sum, and after 5 s the log says who, what and why."""
    matrix = Matrix()
    box = SessionBox(lab, matrix).start()
    sessions, _ = play(lab, matrix, [box.device()], operations=("int32:1000", "int32:1000", "int32:1000"))
    expect_right(sessions, 1)
    sessions, _ = play(lab, matrix, [box.device()], "--patience", 7, operations=("int32:1000",), code=1)
    assert sessions["w2t1p1024"]["answered"] == 0
    box.wait_for_log("members have asked and nothing was added; last rank ")
    box.wait_for_log("begin the session anew: another `run:`, and a reload")
    box.stop()


@case(waits=True)
def switchml_clients_of_the_original_rules(lab):
    """tsi: opaque, with packet numbers that mean nothing: exact where paths keep the order of frames, as memif does."""
    matrix = Matrix(workers=(2, 8), threads=(1, 4), losses=("0", "1%"), tsi="opaque")
    box = SessionBox(lab, matrix).start()
    sessions, _ = play(lab, matrix, [box.device()], "--timeout", 20, operations=("float32:20001", "int32:17000"))
    expect_right(sessions, 8)
    assert sorted(session["loss"] for session in sessions.values()) == [0] * 4 + [0.01] * 4, sessions
    # Whoever looked at the numbers would drop many as stale, and be right all the same a second of silence later.
    counted = box.stop()
    assert not any("stale" in reasons for reasons in counted.drops.values()), counted.text


@case(waits=True)
def switchml_clients_find_what_is_wrong(lab):
    """One bit of one reply differs: exit code 1, and which; without the judge the sum is wrong. Right ones are right."""
    if not Programs.original_box:
        raise Skipped("tally_original_box was not built")
    matrix = Matrix(workers=(3,), threads=(2,), payloads=(256,), losses=("0",))
    # The second reply of all is no repetition, which a client that has the first one would not look at.
    for wrong, arguments, words in ((0, (), ""), (2, (), "WRONG REPLY: "), (2, ("--unjudged",), "WRONG SUMS: ")):
        socket = os.path.join(lab.directory, f"original{len(lab.programs)}.sock")
        memif = f"socket={socket},socket-abstract=no,id=0"
        switch = lab.run("original", [Programs.original_box, f"net_memif0,role=server,{memif}", "3", "256", "64", str(wrong)])
        wait_until("the switch's socket", lambda path=socket: pathlib.Path(path).exists())
        sessions, program = play(lab, matrix, [f"net_memif0,role=client,{memif}"], "--switch", "10.0.0.1", "--switch-mac",
                                 "02:b0:0c:00:00:01", *arguments, operations=("int32:9000",), code=1 if words else 0)
        assert words in program.complained() and words in sessions["w3t2p256"]["wrong"], program.complained()
        switch.signal(15)
        assert switch.wait() == 0 and " 0 frames of strangers" in switch.said(), switch.said()


@case(waits=True)
def switchml_clients_say_why_they_cannot(lab):
    """Wrong words are exit code 2 and a sentence; a switch that does not answer is exit code 1 and who waits."""
    matrix = Matrix()
    for arguments, words in ((("--loss", "2"), "--loss: 2: must be a share"),
                             (("--operations", "int8:4"), "must be int32:ELEMENTS"),
                             (("--switch", "10.0.0.11"), "--address: members have"),
                             (("--window", 8000, "--threads", 2), "--window: 2 x window x threads")):
        _, program = play(lab, matrix, ["net_memif0,role=client,id=0"], *arguments, code=2)
        assert words in program.complained(), program.complained()
    box = SessionBox(lab, matrix).start()
    sessions, program = play(lab, matrix, [box.device()], "--mac", "02:00:00:00:77:01", "--patience", 0.5, code=1,
                             operations=("int32:4",))
    assert "no result comes: rank 0 thread 0 for packet 0 of operation 0" in program.complained(), program.complained()
    assert sessions["w2t1p1024"]["answered"] == 0
    box.stop()
