#pragma once
// What the package's extension modules share: waits that give the GIL back, let Ctrl-C through and outlive the
// interpreter, errors as python's exceptions, and objects of python's that are held where no thread of python's is.

#include <cxxabi.h>
#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace tally::python {

namespace py = pybind11;

constexpr std::int64_t kSliceMs = 50;  // so long a wait does not look for signals

using Clock = std::chrono::steady_clock;

// A year is for ever.
inline std::chrono::nanoseconds of_seconds(double seconds) {
  constexpr double kForever = 365.0 * 24 * 3600;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(std::clamp(seconds, 0.0, kForever)));
}
inline std::int64_t ms_until(Clock::time_point deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
  return std::max<std::int64_t>(left.count(), 0);
}

// As python's exceptions. code: of tally.h; index: in the call's arrays, if it is about one. What make() of _errors.py does,
// but no line of python's runs: there the interpreter's end might meet this thread, with C++ beneath it (see Released).
inline void set_error(int code, const std::string& text, std::optional<std::int64_t> index = std::nullopt) {
  const auto errors = py::reinterpret_steal<py::object>(PyImport_GetModule(py::str("tally._errors").ptr()));
  if (!errors) return PyErr_SetString(PyExc_RuntimeError, text.c_str());
  const py::object kind = errors.attr("CLASSES").attr("get")(code, errors.attr("Error"));
  const py::object error = kind(text);
  error.attr("code") = code;
  error.attr("index") = index;
  PyErr_SetObject(kind.ptr(), error.ptr());
}
[[noreturn]] inline void raise(int code, const std::string& text) {
  set_error(code, text);
  throw py::error_already_set();
}

// The GIL is the others' while this lives. Who asks for it when the interpreter ends, as a daemon thread does whose wait is
// over then, python (up to 3.13) answers with pthread_exit(). That unwinds the thread's frames, and the process is ended by
// std::terminate (SIGABRT) where it would leave a destructor: this one. So such a thread stays here until the process has
// ended. None of these may be destroyed where an exception is being handled: there unwinding ends the process, too.
class Released {
 public:
  Released() : state_(PyEval_SaveThread()) {}
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;
  ~Released() {
    try {
      PyEval_RestoreThread(state_);
    } catch (const abi::__forced_unwind&) {
      while (true) pause();
    }
  }

 private:
  PyThreadState* state_;
};

// Calls step() without the GIL until it gives something, and lets Ctrl-C through between.
template <class Step>
auto interruptible(Step step) {
  while (true) {
    {
      const Released released;
      if (auto done = step()) return *std::move(done);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
}

// What call() returns or throws; it knows no signals, so it is made on a thread of its own, where Ctrl-C leaves it behind
// with all that it holds. That must be nothing that needs the GIL: see held().
template <class Call>
auto on_a_thread(Call call) {
  // What it holds is let go before anybody hears that it is done.
  std::packaged_task<decltype(call())()> task([call = std::move(call)]() mutable {
    const Call last = std::move(call);
    return last();
  });
  auto answer = task.get_future();
  std::thread(std::move(task)).detach();
  interruptible([&answer]() -> std::optional<bool> {
    if (answer.wait_for(std::chrono::milliseconds(kSliceMs)) == std::future_status::ready) return true;
    return std::nullopt;
  });
  return answer.get();
}

// Objects that nobody holds any more, until a thread of python's comes by.
class Discarded {
 public:
  void add(PyObject* object) {
    const std::lock_guard lock(mutex_);
    objects_.push_back(object);
  }
  void let_go() {
    std::vector<PyObject*> objects;
    {
      const std::lock_guard lock(mutex_);
      objects.swap(objects_);
    }
    for (PyObject* const object : objects) Py_DECREF(object);
  }

 private:
  std::mutex mutex_;
  std::vector<PyObject*> objects_;
};

// The object, to be held and let go by any thread. bin: outlives it.
inline std::shared_ptr<void> held(py::object object, Discarded* bin) {
  return {object.release().ptr(), [bin](void* gone) { bin->add(static_cast<PyObject*>(gone)); }};
}

}  // namespace tally::python
