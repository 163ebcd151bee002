"""Exceptions with the library's sentence; `code` is its number, `name` the name of that, `index` the place in arrays."""
from tally import _tally


class Error(RuntimeError):
    """The job is over or never began: aborted, lost its box, fell behind, closed."""
    code = 0
    index = None  # of the key or length that is wrong, in the call's arrays; of tally.kv

    @property
    def name(self):
        """TALLY_ABORTED and so on, as in tally.h."""
        return _tally.code_name(self.code)


class InvalidArgument(Error, ValueError):
    """What was asked cannot be done; nothing has changed."""


class Refused(Error, ValueError):
    """The box refused the join; the sentence is the box's."""


class Timeout(Error, TimeoutError):
    """Not done in time; the sentence names the ranks that are missing."""


class NotFinite(Error, ArithmeticError):
    """NaN, Inf or too large a magnitude in an array; see non_finite."""


CLASSES = {1: InvalidArgument, 2: NotFinite, 4: Refused, 6: Timeout}


def make(code, text, index=None):
    """The exception of a code of tally.h. The extensions make the same without a line of python (waits.h)."""
    error = CLASSES.get(code, Error)(text)
    error.code, error.index = code, index
    return error
