"""train_table.py with its arguments; in the end says, as JSON, how long it was outside of its table in each step: seconds from
the end of the push before to the pull, and from there to the push."""
import json
import pathlib
import sys
import time

import tally.kv

SKIPGRAM = pathlib.Path(__file__).resolve().parents[2] / "examples" / "skipgram"
sys.path.insert(0, str(SKIPGRAM))
import train_table  # noqa: E402  pylint: disable=wrong-import-position

outside, left = [], time.monotonic()


class Timed(tally.kv.Table):
    """A step is a pull and a push."""

    def pull(self, keys, out=None):
        global left  # pylint: disable=global-statement
        outside.append(time.monotonic() - left)
        rows = super().pull(keys, out)
        left = time.monotonic()
        return rows

    def push(self, keys, gradients):
        global left  # pylint: disable=global-statement
        outside[-1] += time.monotonic() - left
        super().push(keys, gradients)
        left = time.monotonic()


tally.kv.Table = Timed
train_table.main()
print(json.dumps({"outside": outside}), flush=True)
