"""The numbers of the live page, reckoned anew from the JSON that the page got, by code that it does not share."""
import decimal
import json
import re

NOTHING = "\u2013"  # what the page shows where nothing is known
# By what a row is the same row in the next snapshot.
IDENTITY = {"jobs.jobs": lambda row: None if row["phase"] == "gone" else row["name"], "ports.ports": lambda row: row["name"],
            "cores.cores": lambda row: row["core"], "drops.drops": lambda row: (row["where"], row["name"], row["job"])}
# Keeps the bytes of every snapshot that the page got.
RECORDER = """
window.recorded = new Map();
const Plain = window.EventSource;
window.EventSource = class extends Plain {
  constructor(address) {
    super(address);
    super.addEventListener("box", event => {
      window.recorded.set(JSON.parse(event.data).snapshot, event.data);
      if (window.recorded.size > 8) window.recorded.delete(window.recorded.keys().next().value);
    });
  }
};
"""
# What is on the screen at one moment, and the snapshots that it is of.
SEEN = """
const root = document.documentElement.dataset;
return {snapshot: root.snapshot, before: root.before ?? null,
  text: window.recorded.get(Number(root.snapshot)) ?? null,
  earlier: root.before ? window.recorded.get(Number(root.before)) ?? null : null,
  numbers: [...document.querySelectorAll("[data-path]")].map(node => ({...node.dataset, text: node.textContent}))};
"""


def fixed(x, digits):
    """As toFixed() of JavaScript: of two numbers as near, the greater."""
    return str(decimal.Decimal(x).quantize(decimal.Decimal(1).scaleb(-digits), decimal.ROUND_HALF_UP))


def trimmed(text):
    return text.rstrip("0").rstrip(".") if "." in text else text


def short(x, unit=""):
    prefixes = iter(("", "k", "M", "G", "T", "P", "E"))
    prefix = next(prefixes)
    while x >= 999.5 and prefix != "E":
        x, prefix = x / 1000, next(prefixes)
    digits = 0 if x >= 99.95 else 1 if x >= 9.995 else 2
    text = fixed(x, digits) if prefix else trimmed(fixed(x, min(digits, 1)))
    return "\u00a0".join(filter(None, [text, prefix + unit]))


def binary(x):
    names = iter(("B", "KiB", "MiB", "GiB", "TiB"))
    name = next(names)
    while x >= 1023.5:
        x, name = x / 1024, next(names)
    return trimmed(fixed(x, 0 if x >= 99.95 else 1)) + "\u00a0" + name


def duration(seconds):
    for limit, unit, part, digits in ((9.95, "s", 1, 1), (120, "s", 1, 0), (7200, "min", 60, 0), (172800, "h", 3600, 0)):
        if seconds < limit:
            return fixed(seconds / part, digits) + "\u00a0" + unit
    return fixed(seconds / 86400, 0) + "\u00a0days"


def turn(ns):
    if ns < 1e6:
        return "below 1\u00a0ms ago"
    return fixed(ns / 1e6, 0) + "\u00a0ms ago" if ns < 1e9 else duration(ns / 1e9) + " ago"


FORMS = {
    "count": lambda x: f"{int(x):,}" if x < 1e6 else short(x),
    "exact": lambda x: f"{int(x):,}" if x < 2**53 else "about\u00a0" + short(x),
    "plain": lambda x: str(int(x)),
    "bytes": binary,
    "ago": lambda x: duration(x / 1e9) + " ago",
    "turn": turn,
    "rate": lambda x: short(x) + "/s",
    "bits": lambda x: short(x, "bit/s"),
    "share": lambda x: fixed(100 * x, 0) + "\u00a0%",
}
RATES = ("rate", "bits", "share")


def value_at(row, path):
    for key in path.split("."):
        row = row.get(key) if isinstance(row, dict) else None
    return row if isinstance(row, (int, float)) and not isinstance(row, bool) else None


def values_of(box, path):
    """All that a path names: a.b[2].c, a.b[*].c, a.b[key=value], a.b[key!=value]."""
    found = [box]
    for name, index in re.findall(r"([\w]+)|\[([^\]]+)\]", path):
        if name:
            found = [one.get(name) if isinstance(one, dict) else None for one in found]
        elif index.isdigit():
            found = [one[int(index)] for one in found]
        elif index == "*":
            found = [row for one in found for row in one]
        else:
            key, same, value = re.fullmatch(r"(\w+)(!?=)(.*)", index).groups()
            found = [row for one in found for row in one if (row[key] == value) == (same == "=")]
    return found


def growth(box, before, path):
    """In a second; None: not known."""
    match = re.fullmatch(r"(\w+\.\w+)\[(\d+|\*)\]\.(.*)", path)
    seconds = (box["time_ms"] - before["time_ms"]) / 1000 if before else 0
    if not match or seconds <= 0:
        return None
    table, index, key = match.groups()
    identity = IDENTITY[table]
    old = {identity(row): row for row in values_of(before, table)[0] if identity(row) is not None}

    def of_row(row):
        now, then = value_at(row, key), value_at(old.get(identity(row), {}), key) or 0
        if identity(row) is None or now is None or now < then or (now > 2**53 and now - then < 2000 * now / 2**52):
            return None  # not known, or not well enough
        return (now - then) / seconds

    rows = values_of(box, table)[0]
    return of_row(rows[int(index)]) if index != "*" else sum(of_row(row) or 0 for row in rows)


def wanted_text(box, before, number):
    """What the page has to show there; several where a last digit hangs on how floating numbers were added."""
    paths, form = number["path"].split(" + "), number["form"]
    if form in RATES:
        grown = [growth(box, before, path) for path in paths]
        value = None if None in grown else sum(grown)
        if value is not None and "over" in number:
            whole = growth(box, before, number["over"])
            value = min(1, value / whole) if whole else None
        if value is not None and "by" in number:
            factor = values_of(box, number["by"])[0]
            value = None if factor is None else value * factor
        value = None if value is None else value * float(number.get("factor", 1))
    elif paths[0].endswith("]"):
        value = len(values_of(box, paths[0]))
    else:
        values = [one for path in paths for one in values_of(box, path)]
        many = "[*]" in number["path"] or "=" in number["path"]
        value = sum(one or 0 for one in values) if many else None if None in values else sum(values)
    if value is None:
        return {NOTHING}
    return {FORMS[form](value * (1 + slip)) for slip in (0, 1e-12, -1e-12)
                        } if isinstance(value, float) else {FORMS[form](value)}


def check_numbers(browser):
    """Every number on the screen is the one of the same snapshot. What it showed, and the snapshot."""
    seen = browser.run(SEEN)
    assert seen["text"] and (seen["before"] is None or seen["earlier"]), seen["snapshot"]
    box, before = json.loads(seen["text"]), seen["before"] and json.loads(seen["earlier"])
    assert str(box["snapshot"]) == seen["snapshot"]
    wrong = [(number, wanted) for number in seen["numbers"]
              for wanted in [wanted_text(box, before, number)] if number["text"] not in wanted]
    assert not wrong, (len(wrong), len(seen["numbers"]), wrong[:5])
    return seen["numbers"], box
