#pragma once
// What KVWorker and KVServer (kv.h) stand on, whatever the type of their values: requests as bytes. Not for programs.

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tally/kv_node.h"
#include "tally/time.h"

namespace tally::kv {

// The type of a request's values. Server and worker must mean the same.
enum class ValueKind : std::uint8_t {};

template <class Val>
[[nodiscard]] constexpr ValueKind value_kind() noexcept {
  static_assert(std::is_arithmetic_v<Val> && sizeof(Val) <= 8, "values are numbers of at most 8 bytes");
  constexpr int kClass = std::floating_point<Val> ? 32 : std::is_signed_v<Val> ? 64 : 96;
  return static_cast<ValueKind>(kClass | static_cast<int>(sizeof(Val)));
}
[[nodiscard]] constexpr std::size_t bytes_of(ValueKind kind) noexcept {
  return static_cast<std::size_t>(kind) & 31U;
}

// A request as its server sees it. The first fields are PS-lite's.
struct KVMeta {
  int cmd = 0;
  bool push = false;
  bool pull = false;
  int sender = 0;  // 9 + 2 * rank of the worker
  int timestamp = 0;
  int customer_id = 0;
  // Pushes that are summed in this one; `contributors`: of each worker a bit, by rank, from bit 0 of word 0 on.
  int num_merge = 1;
  std::vector<std::uint64_t> contributors{};
  // The requests that the answer goes to, when there are several.
  std::shared_ptr<const std::vector<KVMeta>> merged{};

  [[nodiscard]] int rank() const noexcept { return (sender - 9) / 2; }
};

struct Payload {
  SArray<Key> keys;
  SArray<std::byte> vals;
  SArray<int> lens;
};

// Of a request's arrays, what one server gets.
struct Slice {
  std::size_t key = 0, keys = 0;  // from keys[key] on
  std::size_t val = 0, vals = 0;  // in values
};

struct Reply {
  int server = 0;
  Payload data;
};

// Runs on the thread of the worker; what they throw fails the request.
using Gather = std::function<void(std::vector<Reply>& replies)>;  // by rank of server

// What a server gets of a request.
struct Part {
  int server = 0;
  Payload data{};
  std::size_t first = 0;  // where its first key stands in the call's
};

struct Request {
  int cmd = 0;
  bool push = false, pull = false;
  int priority = 0;
  ValueKind kind{};
  std::vector<Part> parts{};  // each server once
  Gather gather{};
  std::function<void()> callback{};
  bool waits_for_room = false;  // in a server's queue; else what has none is thrown
};

// A PushPull that may be a sum of all workers.
struct DenseRequest {
  int cmd = 0;
  ValueKind kind{};
  std::span<const Key> keys;
  std::span<const int> lens;
  const void* in = nullptr;
  void* out = nullptr;
  std::size_t count = 0;         // values
  std::shared_ptr<void> held{};  // until it is done
  std::function<void()> callback{};
};

class WorkerCore {
 public:
  WorkerCore(Node& node, int app_id, int customer_id);
  WorkerCore(const WorkerCore&) = delete;
  WorkerCore& operator=(const WorkerCore&) = delete;
  ~WorkerCore();  // what is under way is forgotten: nothing of it is called or written any more

  // Throw with the index of what is wrong. pushed: how many values; nullopt: none are.
  static void check_keys(std::span<const Key> keys);
  static void check_lens(std::size_t keys, std::span<const int> lens, std::optional<std::size_t> pushed);
  // By range; keys beyond all ranges belong to the last one.
  [[nodiscard]] static std::vector<Slice> slices(std::span<const Key> keys, std::span<const int> lens,
                                                 std::size_t vals, std::span<const Range> ranges);

  int send(Request request);
  // THE SEAM: what goes through the box. nullopt: not this one; it is for the servers.
  [[nodiscard]] std::optional<int> send_to_box(DenseRequest request);

  void wait(int timestamp);
  [[nodiscard]] bool wait_for(int timestamp, std::chrono::milliseconds patience);  // whether it is done
  void on_failure(std::function<void(int timestamp, const Failure&)> handle);
  [[nodiscard]] const std::vector<Range>& ranges() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

struct Arrival {
  KVMeta meta;
  ValueKind kind{};
  Payload data;
};

class ServerCore {
 public:
  ServerCore(Node& node, int app_id);
  ServerCore(const ServerCore&) = delete;
  ServerCore& operator=(const ServerCore&) = delete;
  ~ServerCore();  // after it nothing is handled

  // handle: each request, in the order of arrival, on the server's thread; what it throws is the answer. gone: a worker
  // that is lost, on the same thread. Once.
  void serve(ValueKind kind, std::function<void(Arrival)> handle, std::function<void(int rank)> gone);
  // In handle, gone or work: work runs once on the same thread, when it is `when` (steady_now(); kNever). In place of what
  // was set before.
  void set_alarm(TimeNs when, std::function<void()> work);
  // Any thread.
  void respond(const KVMeta& request, const Payload& data);
  void refuse(const KVMeta& request, const std::string& why, std::int64_t index);
  [[nodiscard]] int workers() const noexcept;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace tally::kv
