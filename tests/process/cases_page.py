"""The live page in a browser, of a box that is at work: every number on it is the box's, and people can read it."""
import collections
import copy
import json
import os
import pathlib
import re
import signal
import time

from box import Job
from browser import Browser, needed
from cases_control import at_work
from cases_http import http_box
from counters import call
from http_client import get
from lab import case
from page_figures import FORMS, NOTHING, RECORDER, check_numbers
from page_stage import Stage, frame_of
from page_topology import check_topology
from page_view import CONTRAST, WIDE, WIDTHS, card_of, check_quiet, choose, look_at, text_of, wait_for_another
from programs import wait_until
from workers import TestWorker

PICTURES = os.environ.get("PAGE_PICTURES")  # a folder that gets the pictures of docs/images
PATIENCE = 120


def lively(lab):
    """A box at work: frames are lost, an urgent job takes the slots of another, a rank of a third is stopped, one job
    lacks a worker. Its port, and its workers."""
    jobs = [Job("resnet50", workers=4, lease="600s"), Job("bert", workers=3, discipline="shared", elements=32),
            Job("urgent", workers=2, discipline="shared", elements=32, priority=254, weight=1000), Job("gpt-small", workers=2)]
    box, port = http_box(lab, jobs, shared_slots=64, impair="loss: 0.5%")
    call(box.control, "job.set", name="bert", quota={"reserved": "10%", "cap": "60%"})
    call(box.control, "job.set", name="urgent", quota={"cap": "80%"})
    workers = [at_work(box, job, script) for job, script in zip(
        jobs[:3], ("--sizes 20000 --gap 40", "--sizes 20000 --gap 20", "--sizes 20000 --gap 20"))]
    alone = TestWorker(box, jobs[3], 0, "--sizes 100", environment={"TALLY_JOIN_TIMEOUT": "600"})
    wait_until("slots to be taken", lambda: box.counters().slots["bert"]["evicted"] > 0, PATIENCE)
    return box, port, workers, alone


def stop(workers):
    workers[0][2].signal(signal.SIGSTOP)


# ---- Cases

@case()
def page_shows_what_the_box_says(lab):
    """Losses, evictions, a straggler, a job that lacks a worker: every number equals the snapshot's, the straggler is
    marked in words, every drop has its sentence and its advice, and nothing is said on the console."""
    needed()
    box, port, workers, _ = lively(lab)
    with look_at(lab, port) as browser:
        forms, snapshot = collections.Counter(), 0
        for _ in range(4):
            numbers, shown = check_numbers(browser)
            forms += collections.Counter(number["form"] for number in numbers if number["text"] != NOTHING)
            assert shown["snapshot"] != snapshot
            snapshot = shown["snapshot"]
            wait_for_another(browser, snapshot)
        assert set(forms) == set(FORMS), forms
        # One refresh behind at most: it soon has what somebody else was told.
        told = call_box(port)["snapshot"]
        browser.wait_for("the snapshot that others see",
            "return Number(document.documentElement.dataset.snapshot) >= arguments[0]", told)
        stop(workers)
        browser.wait_for("the straggler", "return document.querySelector('tr.late')")
        wait_until("its mark in words",
            lambda: re.search(r"\u25b2 LATE: rank 2 \(10\.0\.0\.3\)", card_of(browser, "resnet50")), PATIENCE)
        late = browser.run(
            "return [...document.querySelectorAll('.job')].filter(c => c.querySelector('.name').textContent === 'resnet50')"
            ".flatMap(c => [...c.querySelectorAll('tr.late')]).map(row => row.innerText)")
        assert len(late) == 1 and "LATE" in late[0] and "10.0.0.3:" in late[0] and "at p2" in late[0], late
        assert "need" in text_of(browser, "#health") and "resnet50" in text_of(browser, "#problems")
        wait_until("the job that waits", lambda: "1 of 2 joined" in card_of(browser, "gpt-small"), PATIENCE)
        assert "forming" in card_of(browser, "gpt-small")
        drops = {drop["sentence"] + " " + drop["advice"] for drop in call_box(port)["drops"]["drops"]}
        assert drops, "losses make drops"
        wait_until("the sentences", lambda: all(text in browser.run(
            "return document.querySelector('#drops').textContent") for text in drops), PATIENCE)
        check_numbers(browser)
        events = text_of(browser, "#events")
        assert "job.running" in events and "slots.evicted" in events, events
        check_quiet(browser)
    workers[0][2].signal(signal.SIGCONT)


def call_box(port):
    return get(port, "/api/v1/box").json


@case()
def page_fits_every_screen_in_light_and_dark(lab):
    """From a phone to a wall: nothing reaches beyond the screen, inside or out, and every text stands out from its ground."""
    needed()
    _, port, workers, _ = lively(lab)
    stop(workers)
    with look_at(lab, port) as browser:
        browser.wait_for("the straggler", "return document.querySelector('tr.late')")
        browser.click("#unfold")
        for width in WIDTHS:
            browser.resize(width, 1000)
            browser.prefer(color_scheme="dark" if width in WIDTHS[::2] else "light")
            wide = browser.run(WIDE)
            assert wide["width"] == width and wide["scroll"] == width and not wide["out"] and not wide["inside"], (width, wide)
        grounds = set()
        for scheme in ("light", "dark"):
            browser.prefer(color_scheme=scheme)
            browser.run("document.querySelector('footer details').open = true")
            grounds.add(browser.run("return getComputedStyle(document.body).backgroundColor"))
            contrast = browser.run(CONTRAST)
            assert contrast["seen"] > 150 and not contrast["bad"], (scheme, contrast)
        assert len(grounds) == 2, grounds
        browser.prefer(reduced_motion="reduce")
        moves = browser.run("""return [...document.querySelectorAll('*')]
            .filter(node => getComputedStyle(node).transitionDuration !== '0s').length""")
        assert moves == 0, moves
        take_pictures(browser)
        check_quiet(browser)


def take_pictures(browser):
    """Those of docs/images, when they are wanted."""
    if not PICTURES:
        return
    browser.run("""document.querySelector('footer details').open = false;
        document.querySelector('#foldall').click();
        [...document.querySelectorAll('.fold')].find(fold => fold.textContent.startsWith('resnet50')).click();
        document.activeElement.blur();""")
    time.sleep(float(os.environ.get("PAGE_WARM", "60")))  # so that the charts have something to show
    for name, width, height, scheme in (("light", 1280, 1180, "light"), ("dark", 1280, 1180, "dark"),
                                        ("phone", 390, 1500, "light")):
        browser.resize(width, height)
        browser.prefer(color_scheme=scheme)
        browser.run("scrollTo(0, 0)")
        wait_for_another(browser, browser.run("return document.documentElement.dataset.snapshot"))
        browser.picture(pathlib.Path(PICTURES, f"page-{name}.png"))


@case()
def page_says_when_the_box_is_gone_and_comes_back_by_itself(lab):
    """kill -9: it says since when there is no news; the next life's figures come without a hand on it, from a count that
    began anew, and no rate is reckoned across the two lives."""
    needed()
    job = Job("resnet", workers=2, lease="600s")
    box, port = http_box(lab, [job])
    at_work(box, job)
    with look_at(lab, port) as browser:
        check_numbers(browser)
        check_quiet(browser)
        browser.run("""window.negative = []; window.firsts = [];
            new MutationObserver(() => {
              const texts = kind => [...document.querySelectorAll(kind)].map(node => node.textContent);
              window.negative.push(...texts("[data-form]").filter(text => /[-\\u2212]\\d/.test(text)));
              const root = document.documentElement.dataset;
              const known = texts("[data-form=rate], [data-form=bits]").filter(text => text !== "\\u2013");
              if (!root.before) window.firsts.push([root.snapshot, known.length]);
            }).observe(document.documentElement, {attributes: true, attributeFilter: ["data-snapshot"]});""")
        last = int(browser.run("return document.documentElement.dataset.snapshot"))
        box.kill()
        browser.wait_for("word of it",
            "return /No news for \\d+ s; last seen \\d+ \\w+, [\\d:]+/.test(document.querySelector('#frozen').innerText)")
        assert text_of(browser, "#live") == "Frozen"
        kept = text_of(browser, "#jobs")
        assert "resnet" in kept and "2 of 2 joined" in kept, "what was seen last stays"
        counting = browser.run("return document.querySelector('#frozen').innerText")
        browser.wait_for("the seconds to go on", "return document.querySelector('#frozen').innerText !== arguments[0]", counting)
        assert browser.run(CONTRAST)["bad"] == []
        box.start()
        browser.wait_for("the next life",
            "return document.querySelector('#frozen').hidden && window.firsts.length > 0 && document.documentElement.dataset.before")
        wait_until("the job to sum again",
            lambda: "2 of 2 joined" in card_of(browser, "resnet") and "running" in card_of(browser, "resnet"), PATIENCE)
        wait_for_another(browser, last)
        check_numbers(browser)
        assert browser.run("return window.negative") == []
        firsts = browser.run("return window.firsts")
        assert firsts and all(count == 0 for _, count in firsts), firsts
        assert all(one["source"] == "network" for one in browser.console()), "only that nobody answered"


@case()
def page_shows_an_abort_and_what_people_write_as_text(lab):
    """A reason that is markup is text, in the card, the header and the log; the log is filtered by job and level, and can be
    stopped; a mishap of one job does not hide in the other's."""
    needed()
    reason = "<img src=x onerror=\"document.title='taken'\"><b>\u202egnp &amp; ${1}</b>"
    jobs = [Job("resnet", workers=2), Job("bert", workers=2)]
    box, port = http_box(lab, jobs)
    for job in jobs:
        at_work(box, job)
    with look_at(lab, port) as browser:
        call(box.control, "job.abort", name="resnet", reason=reason)
        browser.wait_for("the abort in the log",
            "return [...document.querySelectorAll('#events li')].some(row => row.textContent.includes('job.aborted'))")
        wait_until("the card to say so", lambda: "ABORTED" in card_of(browser, "resnet"), PATIENCE)
        shown = next(one for one in call_box(port)["jobs"]["jobs"] if one["name"] == "resnet")["reason"]
        assert "<img src=x" in shown, shown
        for selector in ("#jobs", "#problems", "#events"):
            wait_until(f"the reason in {selector}", lambda s=selector: "<img src=x onerror=" in browser.run(
                "return document.querySelector(arguments[0]).textContent", s), PATIENCE)
        assert browser.run("return document.querySelectorAll('img, #jobs b b, main script').length") == 0
        assert browser.run("return document.title") != "taken" and "need" in browser.run("return document.title")
        assert "ABORTED" not in card_of(browser, "bert")
        visible = "return [...document.querySelectorAll('#events li')].filter(row => !row.hidden).map(row => row.innerText)"
        browser.type("#events-job", "bert")
        rows = browser.run(visible)
        assert rows and all("bert" in row for row in rows), rows
        browser.type("#events-job", "no such job")
        assert not browser.run(visible) and text_of(browser, "#no-events")
        browser.type("#events-job", "")
        choose(browser, "#events-level", "warning")
        assert all(re.search("WARNING|ERROR", row) for row in browser.run(visible))
        choose(browser, "#events-level", "all")
        stamps = browser.run("return [...document.querySelectorAll('#events time')].map(node => node.dateTime)")
        assert stamps == sorted(stamps, reverse=True), "newest first"
        browser.click("#pause")
        held = browser.run(visible)
        call(box.control, "job.abort", name="bert", reason="second")
        browser.wait_for("the one that waits", "return /\\(\\d+ waiting\\)/.test(document.querySelector('#pause').innerText)")
        assert browser.run(visible) == held
        browser.click("#pause")
        browser.wait_for("it", "return document.querySelector('#events').textContent.includes('second')")
        check_quiet(browser)


@case()
def page_of_200_jobs_stays_usable(lab):
    """Found by name and by a worker's address, ordered, opened and closed; one change of the document for each snapshot; it
    does not grow."""
    needed()
    job = Job("resnet", workers=2)
    box, port = http_box(lab, [job])
    at_work(box, job)
    for number in range(199):
        call(box.control, "job.add", job={"name": f"train-{number:03}", "workers": 2 + number % 3, "token_file": "none"})
    with look_at(lab, port) as browser:
        browser.wait_for("all of them", "return document.querySelectorAll('.job').length === 200")
        names = "return [...document.querySelectorAll('.job .name')].map(node => node.textContent)"
        assert browser.run(names)[0] == "resnet", "what runs stands before what waits"
        assert browser.run("return document.querySelectorAll('.job tr').length") == 0, "closed ones hold no tables"
        check_numbers(browser)
        browser.type("#find", "train-07")
        assert browser.run(names) == [f"train-07{digit}" for digit in range(10)]
        assert text_of(browser, "#jobs-shown") == "10 of 200 shown"
        browser.type("#find", "10.0.0.2")
        assert browser.run(names) == ["resnet"]
        browser.type("#find", "")
        choose(browser, "#order", "workers")
        assert browser.run(names)[:2] == ["train-002", "train-005"], browser.run(names)[:3]
        browser.click("#unfold")
        browser.wait_for("tables", "return document.querySelectorAll('.job tbody tr').length > 500")
        wide = browser.run(WIDE)
        assert wide["scroll"] == wide["width"] and not wide["out"], wide
        wait_for_another(browser, browser.run("return document.documentElement.dataset.snapshot"))
        check_numbers(browser)
        # Rounds of changes to what shows figures, and how long a snapshot takes
        # to draw; Python looks at neither while it counts.
        browser.run("""window.rounds = 0; window.snapshots = 0;
            const all = {subtree: true, childList: true, characterData: true, attributes: true};
            new MutationObserver(() => window.rounds++).observe(document.querySelector("#jobs"), all);
            new MutationObserver(() => window.snapshots++)
              .observe(document.documentElement, {attributes: true, attributeFilter: ["data-snapshot"]});
            window.nodes = document.querySelectorAll("*").length;""")
        browser.wait_for("ten snapshots", "return window.snapshots >= 10")
        rounds, snapshots, before, after = browser.run(
            "return [window.rounds, window.snapshots, window.nodes, document.querySelectorAll('*').length]")
        assert 0 < rounds <= snapshots, (rounds, snapshots)
        events = browser.run("return document.querySelectorAll('#events *').length")
        assert after - before <= events, (before, after)
        browser.click("#foldall")
        browser.wait_for("closed cards", "return document.querySelectorAll('.job tr').length === 0")
        for number in range(199):
            call(box.control, "job.remove", name=f"train-{number:03}")
        browser.wait_for("their end",
            "return [...document.querySelectorAll('.job .badge')].filter(node => node.textContent !== 'gone').length === 1")
        check_quiet(browser)


@case()
def page_explains_itself_to_keyboard_and_hand(lab):
    """Every number has words, by hovering or by the term beside it; Tab reaches every term, Escape takes the sentence away;
    cards open by Enter; charts are read by arrow keys."""
    needed()
    _, port, workers, _ = lively(lab)
    stop(workers)
    with look_at(lab, port) as browser:
        browser.click("#unfold")
        nameless = browser.run("""return [...document.querySelectorAll("[data-form]")]
            .filter(node => node.checkVisibility() && !node.closest("[data-help]")
              && !node.closest("div:not(.more), td, h3, li").querySelector("[data-help]")
              && !node.closest("table")?.querySelector("th .term"))
            .map(node => node.dataset.path)""")
        assert nameless == [], nameless
        unknown = browser.run(
            "return [...document.querySelectorAll('[data-help]')].map(node => node.dataset.help).filter(key => !(key in HELP))")
        assert unknown == [], unknown
        reached, told = set(), set()
        browser.run("document.querySelector('.skip').focus()")
        for _ in range(400):
            browser.press("\ue004")
            key, tip, id_ = browser.run("""const at = document.activeElement, tip = document.querySelector('#tip');
                return [at.dataset.help ?? '', tip.hidden ? '' : tip.textContent, at.id || at.tagName];""")
            reached.add(id_)
            if key:
                assert len(tip) > 20, (key, tip)
                told.add(key)
            if id_ == "SUMMARY":
                break
        terms = set(browser.run("""return [...document.querySelectorAll('.term')].filter(node => node.checkVisibility())
            .map(node => node.dataset.help)"""))
        assert terms and terms <= told and {"find", "show", "order", "events", "pause"} <= reached, (terms - told, reached)
        browser.run("document.querySelector('#ports-head .term').focus()")
        assert not browser.run("return document.querySelector('#tip').hidden")
        assert browser.run("return document.activeElement.getAttribute('aria-describedby')") == "tip"
        browser.press("\ue00c")
        assert browser.run("return document.querySelector('#tip').hidden")
        browser.run("document.querySelector('.fold').focus()")
        browser.press("\ue007")
        assert browser.run("return document.querySelector('.fold').getAttribute('aria-expanded')") == "false"
        browser.run("document.querySelector('.plot').focus()")
        browser.press("\ue012")
        readout = text_of(browser, ".readout")
        assert re.fullmatch(r"[\d:]+ \u00b7 received .*bit/s \u00b7 sent .*bit/s", readout), readout
        check_quiet(browser)


@case()
def page_of_a_box_that_says_strange_things(lab):
    """Names that are markup or turn the reading direction, counters beyond 2^53 and such as go backwards, gaps in the log,
    a box that refuses the stream: nothing false is on the screen, nothing runs, no rate is below 0."""
    needed()
    job = Job("resnet", workers=2)
    real, port = http_box(lab, [job], impair="loss: 1%")
    at_work(real, job)
    wait_until("a drop", lambda: call_box(port)["drops"]["drops"], PATIENCE)
    box = call_box(port)
    evil = "<img src=x onerror=\"document.title='taken'\">\u202egnp"
    row, drop = box["jobs"]["jobs"][0], box["drops"]["drops"][0]
    row.update(name=evil, phase="running", reason=evil, late=[1], late_text=evil)
    row["ranks"][1].update(late=True, why=evil, address=evil, port=evil, chunk=2**53 + 3)
    row.update(contributions=2**60, results=2**63 + 5)
    drop.update(job=evil, sentence=evil, advice=evil, name="</p><script>1</script>")
    box["ports"]["ports"][0].update(name=evil, link="down", link_why=evil, device="0000:3b:00.0")
    box["health"] = {"state": "degraded", "ending": False, "problems": [{"what": "port", "name": evil, "text": evil}]}
    box["instance"] = evil
    box["slots"]["jobs"] = [{**(box["slots"]["jobs"] or [{}])[0], "job": evil, "priority": 1,
                                "bytes": 1, "window": 1, "filling": 1, "shared_reserved": 0, "shared_cap": 0}]
    stage = Stage()

    def step(number, **changes):
        one = copy.deepcopy(box)
        one.update(snapshot=number, time_ms=box["time_ms"] + 1000 * number)
        one["jobs"]["jobs"][0].update(changes)
        return one

    with Browser(lab) as browser:
        browser.resize(1440, 1000)
        browser.protocol("Page.addScriptToEvaluateOnNewDocument", source=RECORDER)
        browser.open(f"http://127.0.0.1:{stage.port}/")
        frames = stage.stream()

        def show(one, wait=True):
            frames.put(frame_of("box", one))
            if wait:
                browser.wait_for("the snapshot", "return document.documentElement.dataset.snapshot === arguments[0]",
                                 str(one["snapshot"]))

        show(step(1))
        show(step(2, results=2**63 + 7005, contributions=2**60 + 5 * 10**7))
        numbers, _ = check_numbers(browser)
        rates = {number["path"]: number["text"] for number in numbers if number["form"] == "rate"}
        assert rates["jobs.jobs[0].results"] == NOTHING, "7000 of 2^63: nobody knows"
        assert rates["jobs.jobs[0].contributions"] == "50.0\u00a0M/s", rates
        card = card_of(browser, evil)
        assert "about\u00a09.01\u00a0P" in card, card
        assert "9.22\u00a0E in all" in card, card
        show(step(3, results=2**63 + 9000, contributions=5))
        numbers, _ = check_numbers(browser)
        rates = {number["path"]: number["text"] for number in numbers if number["form"] == "rate"}
        assert rates["jobs.jobs[0].contributions"] == NOTHING, "backwards is no rate"
        assert not [number for number in numbers if re.search(r"[-\u2212]\d|NaN|Infinity|undefined|null", number["text"])]
        frames.put(frame_of("gap", {"missed": 7}))
        for number in (1, 2, 2):
            frames.put(frame_of("event", {
                "number": number, "unix_ns": time.time_ns() // 10**9 * 10**9, "event": "job.aborted", "level": "error",
                "job": evil, "rank": None, "port": None, "text": evil}))
        for number in range(3, 700):
            frames.put(frame_of("event", {"number": number, "unix_ns": number, "event": "log",
                       "level": "info", "job": None, "rank": None, "port": None, "text": f"line {number}"}))
        browser.wait_for("the last event",
            "return document.querySelector('#events').firstChild?.textContent.includes('line 699')")
        assert browser.run("return document.querySelectorAll('#events li').length") <= 500
        assert browser.run("return document.querySelectorAll('img, main script, main p p').length") == 0
        assert evil in browser.run("return document.title"), "as it is, and nothing of it ran"
        for selector in ("#jobs", "#problems", "#drops", "#ports", "#slots", "header"):
            assert evil in browser.run("return document.querySelector(arguments[0]).textContent", selector), selector
        assert "Not ready" in text_of(browser, "#health")
        # An older snapshot number is another life: nothing is compared with it.
        show(step(1, results=1))
        assert browser.run("return document.documentElement.dataset.before") is None
        check_quiet(browser)
        # The stream ends and is refused from now on: single snapshots, and then the stream again.
        stage.refuses, stage.single = True, step(50)
        frames.put(None)
        browser.wait_for("a single snapshot", "return document.documentElement.dataset.snapshot === '50'")
        stage.refuses, stage.single = False, None
        frames = stage.stream()
        show(step(60))
        show(step(61))
        assert text_of(browser, "#live").startswith("Live")
        check_numbers(browser)
        check_topology(browser, stage, lambda number, planning: show(dict(step(number), plan={"planning": planning})), evil)
