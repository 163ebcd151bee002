// The Python package's half in C++, over the C face alone: addresses and numbers in, operations out. Arrays, types
// and errors are python's business (tally/__init__.py).
//
// Threads: no call holds the GIL while it waits. What is done is told on a worker's own thread, which must not
// take the GIL (the program may hold it while it waits for just that), so it only puts the operation into a queue;
// a thread of python's empties it, and there callbacks run and references to arrays go.

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "python/waits.h"
#include "tally/tally.h"

namespace tally::python {
namespace {

void check(tally_code code) {
  if (code != TALLY_OK) raise(code, tally_last_error());
}

// What an operation holds until it is done: arrays, and who is to be called. Touched by python's threads alone,
// but for its place in the queue.
struct Held {
  py::object arrays;
  py::object callback;  // callback(), or None
};

class Queue {
 public:
  void push(Held* held) {
    {
      const std::lock_guard lock(mutex_);
      done_.push_back(held);
    }
    filled_.notify_one();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    filled_.notify_all();
  }
  // What is done; empty: stopped.
  std::deque<Held*> take() {
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return stopped_ || !done_.empty(); });
    return std::exchange(done_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<Held*> done_;
  bool stopped_ = false;
};

// Never destroyed: workers' threads may use it while the process ends. A child of fork() has one of its own.
Queue* queue = new Queue;

extern "C" void tally_python_done(void* user, tally_code /*code*/, const tally_operation_stats* /*stats*/) {
  queue->push(static_cast<Held*>(user));
}

// (callback, arrays) of all that is done, when something is; empty: stopped. Python calls and lets go of them: beneath what
// it calls there must be no frame of C++ when the interpreter ends (see Released).
py::list take_done() {
  std::deque<Held*> done;
  {
    const Released released;
    done = queue->take();
  }
  py::list out;
  for (Held* const each : done) {
    const std::unique_ptr<Held> held(each);
    out.append(py::make_tuple(held->callback, held->arrays));
  }
  return out;
}

py::dict as_dict(const tally_operation_stats& stats) {
  py::dict out;
  out["elements"] = stats.elements;
  out["chunks"] = stats.chunks;
  out["packets"] = stats.packets;
  out["retransmissions"] = stats.retransmissions;
  out["seconds"] = static_cast<double>(stats.duration_ns) * 1e-9;
  out["overflow"] = stats.overflow != 0;
  out["incomplete"] = stats.incomplete != 0;
  out["contributors"] = stats.contributors;
  return out;
}

class Operation {
 public:
  explicit Operation(tally_operation* operation) : operation_(operation) {}
  Operation(Operation&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  Operation& operator=(Operation&&) = delete;
  ~Operation() { tally_operation_free(operation_); }

  // seconds: none waits for ever.
  py::dict wait(std::optional<double> seconds) const {
    const auto deadline = Clock::now() + of_seconds(seconds.value_or(0));
    tally_operation_stats stats = TALLY_OPERATION_STATS_INIT;
    const tally_code code = interruptible([&]() -> std::optional<tally_code> {
      const std::int64_t left = seconds ? ms_until(deadline) : kSliceMs + 1;
      const tally_code answer = tally_wait(operation_, std::min(left, kSliceMs), &stats);
      if (answer != TALLY_TIMEOUT) return answer;
      if (tally_done(operation_) != 0) return tally_wait(operation_, 0, &stats);  // done since
      return left > kSliceMs ? std::nullopt : std::optional(answer);
    });
    check(code);
    return as_dict(stats);
  }
  [[nodiscard]] bool done() const { return tally_done(operation_) != 0; }

 private:
  tally_operation* operation_;
};

struct How {
  int priority = TALLY_PRIORITY_OF_WORKER;
  std::uint32_t timeout_ms = 0;
  bool mean = false;
  std::uint32_t wire_bits = 0;
  std::uint32_t non_finite = 0;
};

class Worker {
 public:
  explicit Worker(std::shared_ptr<tally_worker> worker) : worker_(std::move(worker)) {}
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() { free(); }

  // (in, out, elements); in 0: zeros, out 0: dropped.
  using Buffers = std::vector<std::tuple<std::uintptr_t, std::uintptr_t, std::size_t>>;
  Operation allreduce(int type, const Buffers& buffers, const How& how, py::object arrays, py::object done) {
    std::vector<tally_buffer> list;
    list.reserve(buffers.size());
    for (const auto& [in, out, count] : buffers)
      list.push_back({reinterpret_cast<const void*>(in), reinterpret_cast<void*>(out), count});
    return issue(how, std::move(arrays), std::move(done), [&](const auto* with, auto** operation) {
      return tally_allreduce_async(worker_.get(), type, list.data(), list.size(), with, operation);
    });
  }
  Operation broadcast(std::uintptr_t data, std::size_t bytes, std::uint16_t root, const How& how,
                      py::object arrays, py::object done) {
    return issue(how, std::move(arrays), std::move(done), [&](const auto* with, auto** operation) {
      return tally_broadcast_async(worker_.get(), reinterpret_cast<void*>(data), bytes, root, with,
                                   operation);
    });
  }
  Operation all_gather(std::uintptr_t mine, std::uintptr_t all, std::size_t bytes, const How& how,
                       py::object arrays, py::object done) {
    return issue(how, std::move(arrays), std::move(done), [&](const auto* with, auto** operation) {
      return tally_all_gather_async(worker_.get(), reinterpret_cast<const void*>(mine),
                                    reinterpret_cast<void*>(all), bytes, with, operation);
    });
  }
  Operation reduce_scatter(int type, std::uintptr_t in, std::uintptr_t out, std::size_t count, const How& how,
                           py::object arrays, py::object done) {
    return issue(how, std::move(arrays), std::move(done), [&](const auto* with, auto** operation) {
      return tally_reduce_scatter_async(worker_.get(), type, reinterpret_cast<const void*>(in),
                                        reinterpret_cast<void*>(out), count, with, operation);
    });
  }
  Operation barrier(const How& how, py::object done) {
    return issue(how, py::none(), std::move(done), [&](const auto* with, auto** operation) {
      return tally_barrier_async(worker_.get(), with, operation);
    });
  }

  void abort(const std::string& reason) {
    const Shared worker = worker_;
    if (worker == nullptr) return;
    const Released released;
    tally_abort(worker.get(), reason.c_str());
  }
  // seconds 0: begins, and raises Timeout.
  void leave(double seconds) {
    const Shared worker = alive();
    const auto deadline = Clock::now() + of_seconds(seconds);
    check(interruptible([&]() -> std::optional<tally_code> {
      const std::int64_t left = ms_until(deadline);
      const tally_code answer = tally_leave(worker.get(), std::min(left, kSliceMs));
      // A worker that was closed by a timeout says so at once, again and again.
      if (answer == TALLY_TIMEOUT && left > kSliceMs && tally_check(worker.get()) == TALLY_OK)
        return std::nullopt;
      return answer;
    }));
  }
  // Gives up the worker, which goes when nobody is in a call of it any more; afterwards it is closed.
  void free() {
    Shared last = std::exchange(worker_, nullptr);
    const Released released;
    last = nullptr;
  }
  // The reason why it is closed, or none.
  [[nodiscard]] std::optional<std::string> closed() const {
    if (worker_ == nullptr) return "the worker was closed by this program";
    return tally_check(worker_.get()) == TALLY_OK ? std::nullopt
                                                  : std::optional<std::string>(tally_last_error());
  }
  [[nodiscard]] py::dict membership() const {
    tally_membership m = TALLY_MEMBERSHIP_INIT;
    check(tally_get_membership(alive().get(), &m));
    py::dict out;
    out["rank"] = m.rank;
    out["world"] = m.world;
    out["elements"] = m.elements;
    out["multicast"] = m.multicast != 0;
    out["window"] = m.window;
    out["lease"] = static_cast<double>(m.lease_ms) * 1e-3;
    out["generation"] = m.generation;
    return out;
  }
  [[nodiscard]] py::dict statistics() const {
    const Shared worker = alive();
    py::dict out;
    for (std::size_t i = 0; const char* const name = tally_statistic_name(i); ++i) {
      std::uint64_t value = 0;
      check(tally_statistic(worker.get(), name, &value));
      out[name] = value;
    }
    return out;
  }

 private:
  template <class Call>
  Operation issue(const How& how, py::object arrays, py::object done, Call call) {
    auto held = std::make_unique<Held>(Held{std::move(arrays), std::move(done)});
    tally_reduce_options with = TALLY_REDUCE_OPTIONS_INIT;
    with.priority = how.priority;
    with.timeout_ms = how.timeout_ms;
    with.mean = how.mean ? 1 : 0;
    with.wire_bits = how.wire_bits;
    with.non_finite = how.non_finite;
    with.done = tally_python_done;
    with.user = held.get();
    tally_operation* operation = nullptr;
    check(call(&with, &operation));
    (void)held.release();  // the queue's, when it is done
    return Operation(operation);
  }

  using Shared = std::shared_ptr<tally_worker>;

  [[nodiscard]] Shared alive() const {
    if (worker_ == nullptr) raise(TALLY_CLOSED, "the worker was closed by this program");
    return worker_;
  }

  // A call that gives back the GIL keeps its own reference: another thread may close the worker meanwhile.
  Shared worker_;
};

// options: what is said beside the environment, by the names of tally_options.
std::unique_ptr<Worker> join(const py::dict& options) {
  auto all = std::make_shared<tally_options>(tally_options TALLY_OPTIONS_INIT);
  check(tally_options_from_environment(all.get()));
  auto texts = std::make_shared<std::array<std::string, 6>>();
  const std::array<std::pair<const char*, const char * tally_options::*>, 6> strings{
      {{"job", &tally_options::job},
       {"token", &tally_options::token},
       {"box", &tally_options::box},
       {"transport", &tally_options::transport},
       {"address", &tally_options::address},
       {"debug", &tally_options::debug}}};
  // The environment's strings are the library's, for as long as this thread does not ask again: copied.
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const auto& [name, member] = strings.at(i);
    std::string& text = texts->at(i);
    if (const char* const said = (*all).*member; said != nullptr) text = said;
    if (options.contains(name)) text = options[name].cast<std::string>();
    (*all).*member = text.c_str();
  }
  const auto take = [&](const char* name, auto& member) {
    if (options.contains(name)) member = options[name].cast<std::decay_t<decltype(member)>>();
  };
  take("rank", all->rank);
  take("world", all->world);
  take("elements", all->elements);
  take("mtu", all->mtu);
  take("poll", all->poll);
  take("join_timeout_ms", all->join_timeout_ms);
  take("priority", all->priority);

  // A join that Ctrl-C gave up goes on, and what it joins is left at once.
  struct Joined {
    tally_code code = TALLY_SYSTEM;
    std::string text;
    std::shared_ptr<tally_worker> worker;
  };
  Joined joined = on_a_thread([all, texts] {
    tally_worker* worker = nullptr;
    const tally_code code = tally_join(all.get(), &worker);
    return Joined{code, code == TALLY_OK ? "" : tally_last_error(), {worker, tally_worker_free}};
  });
  if (joined.code != TALLY_OK) raise(joined.code, joined.text);
  return std::make_unique<Worker>(std::move(joined.worker));
}

}  // namespace
}  // namespace tally::python

PYBIND11_MODULE(_tally, m) {
  using namespace tally::python;
  m.doc() = "libtally's C face; use the package tally";
  m.def("version", [] { return std::string(tally_version()); });
  m.def("code_name", [](int code) { return std::string(tally_code_name(code)); });
  m.def("join", &join);
  m.def("take_done", &take_done);
  m.def("stop_completions", [] { queue->stop(); });
  // In the child of a fork: the other one's locks may be held by threads that do not exist here.
  m.def("forked", [] { queue = new Queue; });

  py::class_<How>(m, "How").def(py::init([](int priority, std::uint32_t timeout_ms, bool mean,
                                            std::uint32_t wire_bits, std::uint32_t non_finite) {
    return How{priority, timeout_ms, mean, wire_bits, non_finite};
  }));
  py::class_<Operation>(m, "Operation").def("wait", &Operation::wait).def("done", &Operation::done);
  py::class_<Worker>(m, "Worker")
      .def("allreduce", &Worker::allreduce)
      .def("broadcast", &Worker::broadcast)
      .def("all_gather", &Worker::all_gather)
      .def("reduce_scatter", &Worker::reduce_scatter)
      .def("barrier", &Worker::barrier)
      .def("abort", &Worker::abort)
      .def("leave", &Worker::leave)
      .def("free", &Worker::free)
      .def("closed", &Worker::closed)
      .def("membership", &Worker::membership)
      .def("statistics", &Worker::statistics);
}
