// tally.kv's half in C++, over tally/kv.h: an extension of its own, so that who only sums needs no libtally_kv. Addresses
// and numbers in, operations out; arrays, types and names are python's business (tally/kv.py).
//
// Threads: those of libtally_kv never take the GIL. An array that they let go of is python's again at the next call
// of this module.

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python/waits.h"
#include "tally/kv.h"
#include "tally/kv_table.h"

namespace tally::python {
namespace {

using kv::Node;
using kv::SArray;

constexpr int code_of(ErrorCode code) noexcept { return static_cast<int>(code) + 1; }  // of tally.h

// None of these is ever destroyed: threads of a system may use them while the process ends. A child of fork() has others,
// since the locks of these may be held by threads that it does not have.
Discarded* discarded = new Discarded;
std::shared_ptr<Node>* node = new std::shared_ptr<Node>;  // of who has begun; under the GIL
int* customers = new int(0);                              // that were given out

// An object with threads: a child of fork() has none of them, and cannot end it.
template <class Object, class... Arguments>
std::shared_ptr<Object> of_this_process(Arguments&&... arguments) {
  return {new Object(std::forward<Arguments>(arguments)...), [process = getpid()](Object* object) {
            if (process == getpid()) delete object;
          }};
}

std::shared_ptr<Node> begun() {
  discarded->let_go();
  if (*node == nullptr)
    raise(code_of(ErrorCode::kClosed), "this process has not begun: call tally.kv.start()");
  return *node;
}

void start() {
  if (*node != nullptr)
    raise(code_of(ErrorCode::kInvalidArgument), "this process has begun already; it begins once");
  const kv::NodeOptions options = kv::NodeOptions::from_environment();
  if (options.role != kv::Role::kWorks)
    raise(code_of(ErrorCode::kInvalidArgument),
          "DMLC_ROLE: tally.kv is a worker's; servers and the scheduler are tally-kv");
  // Ctrl-C leaves a Node behind, which goes when the time is over that all have to arrive.
  *node = on_a_thread([options] {
    auto fresh = std::make_shared<Node>(options);
    fresh->start();
    return fresh;
  });
}

void finalize(bool barrier) {
  on_a_thread([node = begun(), barrier] { node->finalize(barrier); });
}

py::dict statistics() {
  const kv::NodeStatistics s = begun()->statistics();
  py::dict out;
  out["connections"] = s.connections;
  out["frames_sent"] = s.frames_sent;
  out["frames_received"] = s.frames_received;
  out["bytes_sent"] = s.bytes_sent;
  out["bytes_received"] = s.bytes_received;
  out["dropped"] = s.dropped;
  out["sums"] = s.sums;
  return out;
}

// (address, elements, what keeps them alive).
using Memory = std::tuple<std::uintptr_t, std::size_t, py::object>;

template <class T>
SArray<T> array_of(const Memory& memory) {
  const auto& [address, count, kept] = memory;
  return SArray<T>(held(kept, discarded), reinterpret_cast<T*>(address), count);
}

// The array's own memory.
template <class T>
py::array as_numpy(const SArray<T>& array) {
  const py::capsule owner(new SArray<T>(array), [](void* gone) { delete static_cast<SArray<T>*>(gone); });
  return py::array_t<T>(static_cast<py::ssize_t>(array.size()), array.data(), owner);
}

// A request under way, which goes on when nobody holds this any more.
class Operation {
 public:
  using WaitFor = std::function<bool(std::chrono::milliseconds)>;
  Operation(WaitFor wait_for, std::function<py::object()> result)
      : wait_for_(std::move(wait_for)), result_(std::move(result)) {}

  // seconds: none waits for ever.
  [[nodiscard]] py::object wait(std::optional<double> seconds) const {
    const auto deadline = Clock::now() + of_seconds(seconds.value_or(0));
    const bool done = interruptible([&]() -> std::optional<bool> {
      const std::int64_t left = seconds ? ms_until(deadline) : kSliceMs + 1;
      if (wait_for_(std::chrono::milliseconds(std::min(left, kSliceMs)))) return true;
      return left > kSliceMs ? std::nullopt : std::optional(false);
    });
    discarded->let_go();
    if (!done)
      raise(code_of(ErrorCode::kTimeout), "the servers have not all answered in time; the request goes on");
    return result_();
  }
  [[nodiscard]] bool done() const {
    const Released released;
    try {
      return wait_for_(std::chrono::milliseconds(0));
    } catch (const kv::Failure&) {
      return true;
    }
  }

 private:
  WaitFor wait_for_;
  std::function<py::object()> result_;
};

template <class Val>
class Worker {
 public:
  explicit Worker(int app) : worker_(of_this_process<kv::KVWorker<Val>>(*begun(), app, (*customers)++)) {}

  Operation push(const Memory& keys, const Memory& vals, const std::vector<int>& lens, int cmd,
                 int priority) {
    discarded->let_go();
    const int timestamp = worker_->ZPush(array_of<kv::Key>(keys), array_of<Val>(vals), SArray<int>(lens), cmd,
                                         nullptr, priority);
    return {waits_for(timestamp), [] { return py::none(); }};
  }
  // out: of as many values as come, or empty.
  Operation pull(const Memory& keys, const Memory& out, int cmd, int priority) {
    auto pulled = room_in(out);
    const int timestamp = worker_->ZPull(
        array_of<kv::Key>(keys), &pulled->vals, &pulled->lens, cmd, [pulled] {}, priority);
    return {waits_for(timestamp), [pulled] { return taken(*pulled); }};
  }
  Operation push_pull(const Memory& keys, const Memory& vals, const std::vector<int>& lens, const Memory& out,
                      int cmd, int priority) {
    auto pulled = room_in(out);
    pulled->lens = SArray<int>(lens);
    SArray<int>* const lengths = lens.empty() ? nullptr : &pulled->lens;
    const int timestamp = worker_->ZPushPull(
        array_of<kv::Key>(keys), array_of<Val>(vals), &pulled->vals, lengths, cmd, [pulled] {}, priority);
    return {waits_for(timestamp), [pulled] { return taken(*pulled); }};
  }

 private:
  // The request's callback holds it: it lives as long as somebody may write to it.
  struct Pulled {
    SArray<Val> vals{};
    SArray<int> lens{};
  };
  [[nodiscard]] static std::shared_ptr<Pulled> room_in(const Memory& out) {
    discarded->let_go();
    return std::make_shared<Pulled>(Pulled{array_of<Val>(out), {}});
  }
  [[nodiscard]] static py::object taken(const Pulled& pulled) {
    return py::make_tuple(as_numpy(pulled.vals), as_numpy(pulled.lens));
  }
  [[nodiscard]] Operation::WaitFor waits_for(int timestamp) const {
    return [worker = worker_, timestamp](std::chrono::milliseconds patience) {
      return worker->WaitFor(timestamp, patience);
    };
  }

  std::shared_ptr<kv::KVWorker<Val>> worker_;
};

// One thread at a time, which tally/kv.py sees to. A call that Ctrl-C left behind goes on; the table is over.
class Table {
 public:
  Table(std::size_t width, bool sgd, float rate, std::optional<std::size_t> most_hot, std::uint64_t every,
        int number, std::int64_t age_ms, int least) {
    const kv::TableOptions options{.width = width,
                                   .rule = sgd ? kv::Rule::kSgd : kv::Rule::kSum,
                                   .rate = rate,
                                   .most_hot = most_hot,
                                   .every = every,
                                   .number = number,
                                   .age = std::chrono::milliseconds(age_ms),
                                   .least = least};
    table_ = on_a_thread([node = begun(), options] { return of_this_process<kv::Table>(*node, options); });
  }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  ~Table() { give_up(); }

  void pull(const Memory& keys, const Memory& rows) {
    call([keys = array_of<kv::Key>(keys), rows = array_of<float>(rows)](kv::Table& table) {
      table.pull({keys.data(), keys.size()}, {rows.data(), rows.size()});
    });
  }
  void push(const Memory& keys, const Memory& gradients) {
    call([keys = array_of<kv::Key>(keys), gradients = array_of<float>(gradients)](kv::Table& table) {
      table.push({keys.data(), keys.size()}, {gradients.data(), gradients.size()});
    });
  }
  void close() {
    if (table_ == nullptr) return;
    call([](kv::Table& table) { table.close(); });
    give_up();
  }
  // As the destruction of one that was not closed: this worker leaves the table.
  void give_up() {
    auto last = std::exchange(table_, nullptr);
    const Released released;
    last = nullptr;
  }
  [[nodiscard]] py::dict statistics() const {
    const kv::TableStatistics s = alive()->statistics();
    py::dict out;
    out["rounds"] = s.rounds;
    out["hot_pairs"] = s.hot_pairs;
    out["cold_pairs"] = s.cold_pairs;
    out["hot_keys"] = s.hot_keys;
    out["sets"] = s.sets;
    out["moves"] = s.moves;
    out["late"] = s.late;
    return out;
  }

 private:
  [[nodiscard]] std::shared_ptr<kv::Table> alive() const {
    if (table_ == nullptr) raise(code_of(ErrorCode::kClosed), "the table was closed by this program");
    return table_;
  }
  template <class What>
  void call(What what) {
    discarded->let_go();
    try {
      on_a_thread([table = alive(), what = std::move(what)] { what(*table); });
    } catch (py::error_already_set&) {
      table_ = nullptr;
      throw;
    }
    discarded->let_go();
  }

  std::shared_ptr<kv::Table> table_;
};

template <class Val>
void bind_worker(py::module_& m, const char* name) {
  py::class_<Worker<Val>>(m, name)
      .def(py::init<int>())
      .def("push", &Worker<Val>::push)
      .def("pull", &Worker<Val>::pull)
      .def("push_pull", &Worker<Val>::push_pull);
}

}  // namespace
}  // namespace tally::python

PYBIND11_MODULE(_kv, m) {
  using namespace tally::python;
  m.doc() = "libtally_kv; use the package's module tally.kv";
  py::register_local_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const tally::kv::Failure& failure) {
      const bool about_one = failure.index() != tally::kv::Failure::kNoIndex;
      set_error(code_of(failure.code()), failure.what(),
                about_one ? std::optional(failure.index()) : std::nullopt);
    }
  });
  m.def("start", &start);
  m.def("finalize", &finalize);
  m.def("started", [] { return *node != nullptr; });
  m.def("rank", [] { return begun()->rank(); });
  m.def("num_workers", [] { return begun()->options().workers; });
  m.def("num_servers", [] { return begun()->options().servers; });
  m.def("barrier", [] { on_a_thread([node = begun()] { node->barrier(0, tally::kv::kWorkerGroup); }); });
  m.def("statistics", &statistics);
  m.def("forked", [] {
    discarded = new Discarded;
    node = new std::shared_ptr<Node>;
    customers = new int(0);
  });

  py::class_<Operation>(m, "Operation").def("wait", &Operation::wait).def("done", &Operation::done);
  bind_worker<float>(m, "WorkerFloat32");
  bind_worker<std::int32_t>(m, "WorkerInt32");
  py::class_<Table>(m, "Table")
      .def(py::init<std::size_t, bool, float, std::optional<std::size_t>, std::uint64_t, int, std::int64_t,
                    int>())
      .def("pull", &Table::pull)
      .def("push", &Table::push)
      .def("close", &Table::close)
      .def("give_up", &Table::give_up)
      .def("statistics", &Table::statistics);
}
