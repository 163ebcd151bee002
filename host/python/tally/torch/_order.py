"""Operations are asked for in the same order at all ranks, though the values of some are not there yet."""
import collections
import contextlib
import threading
import time
import weakref

from tally._errors import Error


class Order:
    """Of one worker."""
    _of = weakref.WeakKeyDictionary()
    _started = []  # those with a thread

    def __init__(self, worker):
        self._worker = weakref.ref(worker)
        self._lock, self._waiting, self._more = threading.Lock(), collections.deque(), threading.Event()
        self._thread, self._stopped = None, False

    @classmethod
    def of(cls, worker):
        with _making:
            if worker not in cls._of:
                cls._of[worker] = cls(worker)
            return cls._of[worker]

    def issue(self, ask, ready=()):
        """The operation that ask() begins: at once, or when the events in `ready` are over and all before it have begun."""
        with self._lock:
            if self._stopped or not ready and not self._waiting:
                return ask()
            later = Later(ask, ready)
            self._waiting.append(later)
            self._more.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tally-order", daemon=True)
                self._thread.start()
                self._started.append(self)
            return later

    @classmethod
    def stop_all(cls, deadline):
        """All that waits begins, or fails as its worker is closed, if it does by then. What is asked for later fails, too."""
        for order in cls._started:
            with order._lock:
                order._stopped = True
                order._waiting.append(None)
                order._more.set()
        for order in cls._started:
            order._thread.join(max(0, deadline - time.monotonic()))

    def _run(self):
        while True:
            self._more.wait()
            if self._waiting[0] is None:
                return
            error = self._waiting[0].begin()
            worker = self._worker()
            if error is not None and worker is not None:
                # The others have begun it: whatever came next here would meet it there.
                with contextlib.suppress(Error):  # it is closed
                    worker.abort(f"a sum could not begin: {error}")
            with self._lock:  # what comes meanwhile stands behind it
                self._waiting.popleft()
                if not self._waiting:
                    self._more.clear()


_making = threading.Lock()


class Later:
    """An operation that is yet to begin."""

    def __init__(self, ask, ready):
        self._ask, self._ready = ask, ready
        self._begun, self._lock = threading.Event(), threading.Lock()
        self._operation = self._error = None
        self._callbacks = []

    def begin(self):
        """What went wrong; None: nothing."""
        try:
            for event in self._ready:
                event.synchronize()
            self._operation = self._ask()
        except Exception as error:  # pylint: disable=broad-except
            self._error = error  # who waits for it is told
        self._ask = self._ready = None
        with self._lock:
            self._begun.set()
            callbacks, self._callbacks = self._callbacks, []
        try:
            for callback in callbacks:
                self._call(callback)
        except Exception as error:  # pylint: disable=broad-except
            return error
        return self._error

    def wait(self, timeout=None):
        if not self._begun.wait(timeout):
            raise TimeoutError(f"the copy of the tensor was not done within {timeout} s; it goes on")
        if self._error is not None:
            raise self._error
        return self._operation.wait(timeout)

    def add_done_callback(self, callback):
        with self._lock:
            if not self._begun.is_set():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _call(self, callback):
        if self._error is not None:
            callback(self)
        else:
            self._operation.add_done_callback(callback)
