#pragma once
// One worker that pushes to one server, over either transport: what is sent, and what both have used meanwhile.

#include <sys/resource.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tally::bench {

struct PushCase {
  std::size_t keys = 1000;
  std::size_t width = 1;
  std::size_t pushes = 100;
  [[nodiscard]] std::size_t pairs() const { return keys * pushes; }
};
constexpr std::size_t kUnderWay = 4;  // pushes that are not acknowledged

// In memory that both processes share.
struct Shared {
  std::atomic<std::uint64_t> server_begun;  // ns of CPU, before the first push
  std::atomic<std::uint64_t> server_ended;  // ... behind the last one
  std::atomic<std::uint64_t> worker_used;
  std::atomic<std::uint64_t> wall;
  std::atomic<std::uint64_t> wire;  // bytes on the loopback interface, TCP and IP headers too, both ways
  std::atomic<std::uint64_t> sum;
  std::atomic<bool> failed;
};

// User and system time of this process, ns.
inline std::uint64_t cpu_ns() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto ns = [](const timeval& t) {
    return 1'000'000'000ULL * static_cast<std::uint64_t>(t.tv_sec) +
           1'000ULL * static_cast<std::uint64_t>(t.tv_usec);
  };
  return ns(used.ru_utime) + ns(used.ru_stime);
}

// What a server does with a push, the same for both: it adds the values to its own.
class Rows {
 public:
  explicit Rows(std::size_t values) : values_(values) {}
  void add(const float* values, std::size_t n) {
    for (std::size_t i = 0; i < n && i < values_.size(); ++i) values_[i] += values[i];
  }
  [[nodiscard]] std::uint64_t sum() const {
    double sum = 0;
    for (const float v : values_) sum += v;
    return static_cast<std::uint64_t>(sum);
  }

 private:
  std::vector<float> values_;
};

// As PS-lite's van: each node has a ROUTER that it receives with, and a DEALER to each peer that it sends with; a message
// is a part for what describes it and one for each array, which are sent where they lie.
void zmq_server(const PushCase& what, std::uint16_t port, Shared& shared);
// begin, end: called around the pushes.
void zmq_worker(const PushCase& what, std::uint16_t port, void (*begin)(Shared&), void (*end)(Shared&),
                Shared& shared);

}  // namespace tally::bench
