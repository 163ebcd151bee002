"""corpus_tool_test.py FUZZ_CORPUS: what tools/fuzz-corpus keeps it gives back byte for byte, and nothing twice."""

import pathlib
import subprocess
import sys
import tempfile

INPUTS = {"empty": b"", "one": b"\n", "a-line": bytes(range(32)), "all.of_them": bytes(range(256)) + b"\0"}


def tool(*arguments):
    done = subprocess.run([sys.argv[1], *map(str, arguments)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def check(condition, what):
    if not condition:
        sys.exit(f"failed: {what}")


with tempfile.TemporaryDirectory() as temporary:
    here = pathlib.Path(temporary)
    corpus, files = here / "some.hex", here / "files"
    files.mkdir()
    for name, data in INPUTS.items():
        (files / name).write_bytes(data)
        check(tool("keep", corpus, files / name) == (0, ""), f"keep {name}")
    check(tool("unpack", corpus, here / "back") == (0, ""), "unpack")
    check({file.name: file.read_bytes() for file in (here / "back").iterdir()} == INPUTS, "the same inputs")
    check(tool("unpack", corpus, here / "back")[0] == 1, "refuse a directory that is there already")

    before = corpus.read_text()
    (files / "again").write_bytes(INPUTS["one"])
    check("one has the same bytes" in tool("keep", corpus, files / "again")[1], "say what is there already")
    (files / "one").write_bytes(b"other")
    check(tool("keep", corpus, files / "one")[0] == 1, "refuse a name that is taken")
    check(corpus.read_text() == before, "leave the corpus alone")

    for bad in ("  00\n", "a: 1 bytes\n", "a: 1 bytes\n  0g\n", "a: 1 bytes\n  00\na: 1 bytes\n  00\n", "a\n"):
        corpus.write_text(bad)
        status, output = tool("unpack", corpus, here / "bad")
        check(status == 1 and str(corpus) in output, f"refuse {bad!r}, with the file's name")
