"""The packets of tests/fixtures/*.fixture, with what the switch makes of them."""
import dataclasses
import pathlib

from fixture_jobs import make_job

DIRECTORY = pathlib.Path(__file__).resolve().parents[1] / "fixtures"


@dataclasses.dataclass
class Line:
    case: str
    keyword: str  # setup, in, out, reject
    frame: bytes
    vouched: bool = False
    verdict: str = ""


def names():
    return sorted(path.stem for path in DIRECTORY.glob("*.fixture"))


def words_of(text):
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def read(name):
    """(jobs as they are declared, lines with packets)."""
    jobs, lines, case = [], [], ""
    for text in (DIRECTORY / f"{name}.fixture").read_text().splitlines():
        head, _, data = text.strip().partition(" : ")
        keyword, _, rest = head.partition(" ")
        words = words_of(rest)
        if keyword == "job":
            job = make_job(rest.split()[0], int(words["id"]), int(words["world"]), elements=int(words["elements"]))
            job.epoch, job.generation = int(words["epoch"], 16), int(words["generation"], 16)
            jobs.append(job)
        elif keyword == "case":
            case = rest.split()[0]
        elif keyword in ("setup", "in", "out", "reject"):
            lines.append(Line(case, keyword, bytes.fromhex(data), words.get("vouched") == "1"))
        elif keyword == "verdict":
            lines[-1].verdict = rest
    return jobs, lines
