"""tally-plan: its verbs against the examples of conf/, and mistakes."""
import json
import pathlib
import re
import subprocess

from lab import case
from programs import Programs

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONF = ROOT / "conf"
LEAF_SPINE = CONF / "cluster-leaf-spine.yaml"


def run_plan(*words, text=None, code=0, file=subprocess.PIPE):
    """What it said on stdout; or on stderr, of one that fails."""
    done = subprocess.run([Programs.plan, *map(str, words)], input=text, stdout=file, stderr=subprocess.PIPE,
                          text=True, timeout=Programs.patience(120), check=False)
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return done.stderr if code in (1, 2) else done.stdout


def near(value, wanted, share=1e-6):
    assert abs(value - wanted) <= share * wanted, (value, wanted)


@case("release", "address", waits=True)
def plan_show_has_the_rates_of_the_closed_forms(lab):
    """4 racks of 8, boxes and servers of 100 G: 12.5 without boxes, 23.4375 by own racks, at most 24.61."""
    del lab
    job = json.loads(run_plan("show", LEAF_SPINE, "--json"))["jobs"][0]
    near(job["without_gbps"]["no_aggregation"], 12.5)
    near(job["without_gbps"]["own_rack"], 23.4375)
    near(job["bound_gbps"], 24.609375)
    near(job["ring_gbps"], 25 * 32 / 62)
    assert 0.95 * job["bound_gbps"] <= job["rate_gbps"] <= job["bound_gbps"] * (1 + 1e-9), job["rate_gbps"]
    near(job["step_seconds"], 1440 * 2**20 * 8e-9 / job["rate_gbps"])
    assert all(one["load_gbps"] <= one["capacity_gbps"] * (1 + 1e-9) for one in job["loads"])
    text = run_plan("show", LEAF_SPINE)
    assert "at most  24.61 Gbit/s" in text and "23.44" in text and max(map(len, text.splitlines()[1:])) <= 100, text


@case(waits=True)
def plan_show_has_the_rates_of_the_article(lab):
    """The fat tree with 50 workers: none 1.6, own racks 3.565, at most 9.538; one draw for each worker loses most of it."""
    del lab
    job = json.loads(run_plan("show", CONF / "cluster-fat-tree.yaml", "--json"))["jobs"][0]
    near(job["without_gbps"]["no_aggregation"], 1.6)
    near(job["without_gbps"]["own_rack"], 3.565, 1e-3)
    near(job["bound_gbps"], 9.538, 1e-3)
    assert job["rate_gbps"] >= 0.95 * job["bound_gbps"]
    assert job["without_gbps"]["independent"] < 0.5 * job["rate_gbps"]


@case(waits=True)
def plan_show_of_one_rack(lab):
    """Two jobs share one box, which is wide enough; narrower, a ring is faster and is said to be."""
    text = run_plan("show", CONF / "cluster-one-rack.yaml")
    assert "all jobs together: 300.00 Gbit/s" in text and "ring would be faster" not in text, text
    narrow = pathlib.Path(lab.directory, "narrow.yaml")
    narrow.write_text((CONF / "cluster-one-rack.yaml").read_text().replace("400G", "100G"))
    text = run_plan("show", narrow, "--job", "bert")
    assert "A ring would be faster, and needs no box: 16.67 against 8.33 Gbit/s." in text and "resnet" not in text, text
    assert run_plan("show", "-", text=narrow.read_text()).splitlines()[1:] == run_plan("show", narrow).splitlines()[1:]


def table_of(text):
    """Rows of the table of boxes: how many, where, rate, at most."""
    rows = re.findall(r"^(\d+) +(\S.*?) {2,}(?:all )?\d+ +([\d.]+) .*?([\d.]+) +[\d.]+ %$", text, re.MULTILINE)
    assert rows, text
    return [(int(boxes), where, float(rate), float(most)) for boxes, where, rate, most in rows]


@case()
def plan_buy_says_where_and_the_page_shows_it(lab):
    """The table of docs/fleet_planning.md is what the program prints."""
    del lab
    page = (ROOT / "docs/fleet_planning.md").read_text(encoding="utf-8")
    words = re.search(r"^\$ tally-plan (buy conf/.*)$", page, re.MULTILINE).group(1).split()
    text = run_plan(words[0], ROOT / words[1], *words[2:])
    printed, shown = table_of(text), table_of(page)
    assert [row[0] for row in printed] == [row[0] for row in shown] == list(range(7))
    for now, then in zip(printed, shown):
        near(now[2], then[2], 0.02)
        assert now[3] == then[3], (now, then)
    found = json.loads(run_plan(words[0], ROOT / words[1], *words[2:], "--json"))["placements"]
    near(found[0]["jobs"][0]["rate_gbps"], 12.5)
    assert all(after["total_gbps"] >= before["total_gbps"] for before, after in zip(found, found[1:]))


@case(waits=True)
def plan_buy_only_where_there_is_room(lab):
    del lab
    found = json.loads(run_plan("buy", LEAF_SPINE, "--boxes", 9, "--rate", "50G", "--json"))
    assert found["places"] == ["spine1", "spine2"] and found["box_gbps"] == 50, "racks have boxes already"
    assert [row["at"] for row in found["placements"]] == [[], ["spine1"], ["spine1", "spine2"]]
    found = json.loads(run_plan("buy", LEAF_SPINE, "--boxes", 2, "--instead", "--at", "rack[2-3]", "--json"))
    assert found["places"] == ["rack2", "rack3"]


@case(waits=True)
def plan_what_if_shows_before_and_after(lab):
    del lab
    answer = json.loads(run_plan("what-if", LEAF_SPINE, "--lose", "box=rack1", "--lose", "link=spine1-rack2", "--json"))
    before, after = (answer[when]["jobs"][0] for when in ("before", "after"))
    assert after["bound_gbps"] <= (400 + 31 * 300 / 32) / 32, "three boxes, as if links never bound"
    assert 0.95 * after["bound_gbps"] <= after["rate_gbps"] < before["rate_gbps"], (after, before)
    assert not any(one["resource"] in ("box rack1", "link rack2 to spine1", "link spine1 to rack2")
                   for one in after["loads"]), after["loads"]
    text = run_plan("what-if", LEAF_SPINE, "--lose", "box=rack1")
    assert "lost: box=rack1" in text and "% of before" in text, text
    # A rack that nothing leads to any more: its job has no plan.
    assert "no plan" in run_plan("what-if", LEAF_SPINE, "--lose", "switch=rack1", code=3)


@case("address")
def plan_mistakes_say_what_to_do(lab):
    """Exit codes as tallyctl's: 1 what cannot be read, 2 wrong usage, 3 a file with errors."""
    bad = pathlib.Path(lab.directory, "bad.yaml")
    bad.write_text("leaf_spine: {racks: 2, spines: 1, hosts: 8, nic: 25, uplink: 100G}\n")
    done = subprocess.run([Programs.plan, "show", bad], capture_output=True, text=True, check=False,
                          timeout=Programs.patience(120))
    assert done.returncode == 3 and f"{bad}:1:50: error: leaf_spine.nic" in done.stderr and not done.stdout, done
    assert "/no/such" in run_plan("show", "/no/such", code=1)
    for words, said in ((("show", LEAF_SPINE, "--job", "gtp"), "there is no job 'gtp', but gpt"),
                        (("what-if", LEAF_SPINE, "--lose", "box=rakc1"), "did you mean rack1?"),
                        (("what-if", LEAF_SPINE, "--lose", "rack1"), "box=NAME, link=A-B or switch=NAME"),
                        (("buy", LEAF_SPINE, "--boxes", "2", "--rate", "100"), "write 100G"),
                        (("buy", LEAF_SPINE, "--boxes", "2", "--rate", "0G"), "0 buys nothing"),
                        (("buy", LEAF_SPINE, "--boxes", "2", "--at", "rack1"), "rack1 has a box"),
                        (("buy", LEAF_SPINE, "--boxes", "2", "--at", "rack9"), "there is no switch 'rack9'"),
                        (("buy", LEAF_SPINE, "--boxes", "2", "--at", "rack["), "not closed"),
                        (("plan", LEAF_SPINE), "but show, buy, what-if")):
        complaint = run_plan(*words, code=2)
        assert said in complaint, (words, complaint)


@case(waits=True)
def plan_says_when_its_answer_was_cut(lab):
    del lab
    with open("/dev/full", "w", encoding="ascii") as full:
        assert "cannot write to stdout" in run_plan("show", LEAF_SPINE, file=full, code=1)
