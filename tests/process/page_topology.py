"""The topology on the live page: plans of jobs over many boxes, as the box says them."""
import re

from page_figures import fixed
from page_stage import plan_of
from page_view import CONTRAST, WIDE, WIDTHS, text_of


def planned_numbers(browser, plan):
    """Every number of the topology is the plan's; how many there are."""
    def value(path):
        names, row = re.findall(r"\w+", path), plan
        for name in names:
            row = row[int(name) if name.isdigit() else name]
        return row
    seen = browser.run("return [...document.querySelectorAll('[data-plan]')].map(node => [node.dataset.plan, node.textContent])")
    for path, text in seen:
        above, _, below = path.partition(" / ")
        wanted = f"{fixed(100 * value(above) / value(below), 0)}\u00a0%" if below else fixed(value(above), 2)
        assert text == wanted, (path, text, wanted)
    return len(seen)


def check_topology(browser, stage, show, evil):
    """The section of the plans, of a stage whose snapshots `show` sends: it is there while the box plans, every number is the
    plan's, names are text, arrow keys read it, and it fits a phone and 64 racks."""
    hidden = "return document.querySelector('#topology').hidden"
    assert browser.run(hidden), "nobody plans"
    plan = plan_of(4, 2)
    plan["jobs"][0].update(name=evil, full=evil, why=evil)
    plan["jobs"].append({"name": "bert", "planned": False, "home": "10.0.0.9", "error": "its plan is known to its home, box 10.0.0.9: ask there"})
    plan["links"][4].update(capacity_gbps=0, load_gbps=0)
    plan["boxes"][2].update(name=evil, address=evil)
    plan["boxes"][3].update(state="unknown", load_gbps=0)
    stage.plan = plan
    show(62, True)
    browser.wait_for("the topology", "return document.querySelector('#topology').innerText.includes('bert')")
    # Jobs: 3 and what is full; at the switches boxes 3, servers 4, hosts 4; wires 7; a table of all that is loaded.
    assert planned_numbers(browser, plan) > 30
    told = text_of(browser, "#plans")
    assert "A ring would be faster, and needs no box: 12.90 Gbit/s" in told and evil in told, told
    assert "no plan: its plan is known to its home, box 10.0.0.9: ask there" in told, told
    drawn = browser.run("return document.querySelector('#map').textContent")
    assert all(word in drawn for word in ("LOST", "DOWN", "unused", "spine2")), drawn

    def detail():
        return browser.run("return document.querySelector('#map-detail').textContent")

    browser.run("document.querySelector('#map').focus()")
    for key, words in (("\ue011", "spine1"), ("\ue015", "a rack of 8 hosts, 8 workers"), ("\ue010", "rack4"), ("\ue013", "spine2"),
                       ("\ue012", "spine1")):
        browser.press(key)
        assert words in detail(), (key, detail())
        planned_numbers(browser, plan)
    browser.press("\ue00c")
    assert detail().startswith("Hover"), detail()
    assert browser.run("return document.querySelectorAll('img, main script').length") == 0
    browser.run("document.querySelector('#loads').open = true")
    for scheme in ("light", "dark"):
        browser.prefer(color_scheme=scheme)
        assert browser.run(CONTRAST)["bad"] == [], scheme
    stage.plan = plan_of(64, 8)
    browser.run("planAt = -Infinity")
    show(63, True)
    browser.wait_for("64 racks", "return document.querySelectorAll('#map .rack').length === 64")
    for width in WIDTHS[::3]:
        browser.resize(width, 1000)
        browser.wait_for("the drawing to fit", "return Math.abs(document.querySelector('#map').viewBox.baseVal.width"
                         " - document.querySelector('#map').clientWidth) < 1")
        wide = browser.run(WIDE)
        assert wide["scroll"] == width and not wide["out"] and not wide["inside"], (width, wide)
        overlaps = browser.run("""const boxes = [...document.querySelectorAll('#map .place')].map(node => node.getBBox());
            return boxes.filter((a, i) => boxes.some((b, j) => j > i && a.x < b.x + b.width && b.x < a.x + a.width
              && a.y < b.y + b.height && b.y < a.y + a.height)).length""")
        assert overlaps == 0, (width, overlaps)
        planned_numbers(browser, stage.plan)
    browser.resize(1440, 1000)
    show(64, False)
    browser.wait_for("nothing", hidden)
    assert all(one["source"] == "network" for one in browser.console()), "only that the stream was refused"
