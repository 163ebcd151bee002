#pragma once
// Keys and values on servers, with the interface of PS-lite (docs/kv.md says what is the same and what is not):
//
//   tally::kv::Start(0);                          // DMLC_* says who this process is
//   if (tally::kv::IsWorker()) {
//     tally::kv::KVWorker<float> kv(0, 0);
//     kv.Wait(kv.Push(keys, values));             // keys unique and ascending
//     kv.Wait(kv.Pull(keys, &values));
//   }
//   tally::kv::Finalize(0);
//
// No call waits but Start, Finalize, Barrier and Wait. A call returns a timestamp for Wait; callbacks run on a thread of
// the worker, before Wait returns. Any thread may call. Requests of one worker for one key are handled in the order of
// their calls. What is wrong with arguments is thrown by the call, what happens later by Wait, as a Failure.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tally/kv_core.h"
#include "tally/kv_merge.h"
#include "tally/kv_node.h"

namespace tally::kv {

// NOLINTBEGIN(readability-identifier-naming): PS-lite's names.

// Of the process's own Node. The roles and numbers may be asked before Start.
[[nodiscard]] inline int NumWorkers() { return Node::process().options().workers; }
[[nodiscard]] inline int NumServers() { return Node::process().options().servers; }
[[nodiscard]] inline bool IsWorker() { return Node::process().options().role == Role::kWorks; }
[[nodiscard]] inline bool IsServer() { return Node::process().options().role == Role::kServes; }
[[nodiscard]] inline bool IsScheduler() { return Node::process().options().role == Role::kSchedules; }
[[nodiscard]] inline int MyRank() { return Node::process().rank(); }
[[nodiscard]] inline const std::vector<Range>& RangesOf() { return Node::process().ranges(); }
inline void Start(int /*customer_id*/, const char* /*program*/ = nullptr) { Node::process().start(); }
inline void Finalize(int /*customer_id*/, bool do_barrier = true) { Node::process().finalize(do_barrier); }
inline void Barrier(int customer_id, int groups) { Node::process().barrier(customer_id, groups); }
inline void RegisterExitCallback(const std::function<void()>& callback) { Node::process().on_exit(callback); }

template <class Val>
class KVWorker {
 public:
  using Callback = std::function<void()>;
  // Of each range whether it has any keys, and which.
  using SlicedKVs = std::vector<std::pair<bool, KVPairs<Val>>>;
  using Slicer =
      std::function<void(const KVPairs<Val>& send, const std::vector<Range>& ranges, SlicedKVs* sliced)>;

  // app_id: of the KVServer that is meant; customer_id tells workers of one app in one process apart.
  explicit KVWorker(int app_id, int customer_id = 0) : KVWorker(Node::process(), app_id, customer_id) {}
  KVWorker(Node& node, int app_id, int customer_id) : core_(node, app_id, customer_id) {}

  // The vectors are copied before the call returns. keys unique and ascending; lens empty: as many values for each key.
  int Push(const std::vector<Key>& keys, const std::vector<Val>& vals, const std::vector<int>& lens = {},
           int cmd = 0, const Callback& callback = nullptr, int priority = 0) {
    return ZPush(SArray<Key>(keys), SArray<Val>(vals), SArray<int>(lens), cmd, callback, priority);
  }
  // vals: empty, or as large as what comes; lens likewise. Both the caller's, untouched until it is done.
  int Pull(const std::vector<Key>& keys, std::vector<Val>* vals, std::vector<int>* lens = nullptr,
           int cmd = 0, const Callback& callback = nullptr, int priority = 0) {
    return request(false, true, {SArray<Key>(keys), {}, {}, priority}, cmd, callback, into(vals, lens));
  }
  // Of all values that are pushed, what the server makes of them. Through a box (Node: `box`) it is the sum of what all
  // workers give, for which all of them call it with the same keys and lens, in the same order.
  int PushPull(const std::vector<Key>& keys, const std::vector<Val>& vals, std::vector<Val>* outs,
               std::vector<int>* lens = nullptr, int cmd = 0, const Callback& callback = nullptr,
               int priority = 0) {
    return push_pull({SArray<Key>(keys), SArray<Val>(vals), lens_of(lens), priority}, outs, lens, cmd,
                     callback);
  }
  // Without copies: the arrays' memory stays untouched until it is done.
  int ZPush(const SArray<Key>& keys, const SArray<Val>& vals, const SArray<int>& lens = {}, int cmd = 0,
            const Callback& callback = nullptr, int priority = 0) {
    return request(true, false, {keys, vals, lens, priority}, cmd, callback, nullptr);
  }
  int ZPull(const SArray<Key>& keys, SArray<Val>* vals, SArray<int>* lens = nullptr, int cmd = 0,
            const Callback& callback = nullptr, int priority = 0) {
    return request(false, true, {keys, {}, {}, priority}, cmd, callback, into(vals, lens));
  }
  int ZPushPull(const SArray<Key>& keys, const SArray<Val>& vals, SArray<Val>* outs,
                SArray<int>* lens = nullptr, int cmd = 0, const Callback& callback = nullptr,
                int priority = 0) {
    return push_pull({keys, vals, lens_of(lens), priority}, outs, lens, cmd, callback);
  }

  // Until the servers have answered and the callback has returned. Throws what went wrong; not in a callback.
  void Wait(int timestamp) { core_.wait(timestamp); }
  // false: it is not done yet.
  [[nodiscard]] bool WaitFor(int timestamp, std::chrono::milliseconds patience) {
    return core_.wait_for(timestamp, patience);
  }
  // A request that fails has no callback; this is called instead, for those who do not Wait.
  void set_failure_handle(std::function<void(int timestamp, const Failure&)> handle) {
    core_.on_failure(std::move(handle));
  }
  // Before the first request. What it gives each server keeps the order of the keys.
  void set_slicer(const Slicer& slicer) { slicer_ = slicer; }

 private:
  [[nodiscard]] static SArray<int> lens_of(const std::vector<int>* lens) {
    return lens == nullptr ? SArray<int>() : SArray<int>(*lens);
  }
  [[nodiscard]] static SArray<int> lens_of(const SArray<int>* lens) {
    return lens == nullptr ? SArray<int>() : *lens;
  }

  template <class Vals, class Lens>
  int push_pull(KVPairs<Val> send, Vals* outs, Lens* lens, int cmd, const Callback& callback) {
    if constexpr (std::is_same_v<Val, float> || std::is_same_v<Val, std::int32_t>) {
      WorkerCore::check_keys(std::span(send.keys.data(), send.keys.size()));
      WorkerCore::check_lens(send.keys.size(), std::span(send.lens.data(), send.lens.size()),
                             send.vals.size());
      if (outs->empty()) outs->resize(send.vals.size());
      if (outs->size() == send.vals.size()) {
        auto held = std::make_shared<KVPairs<Val>>(send);
        const auto sent = core_.send_to_box(
            {cmd, value_kind<Val>(), std::span<const Key>(held->keys.data(), held->keys.size()),
             std::span<const int>(held->lens.data(), held->lens.size()), held->vals.data(), outs->data(),
             held->vals.size(), held, callback});
        if (sent) return *sent;
      }
    }
    return request(true, true, std::move(send), cmd, callback, into(outs, lens));
  }

  int request(bool push, bool pull, KVPairs<Val> send, int cmd, const Callback& callback, Gather gather) {
    const std::span<const Key> keys(send.keys.data(), send.keys.size());
    WorkerCore::check_keys(keys);
    WorkerCore::check_lens(keys.size(), std::span(send.lens.data(), send.lens.size()),
                           push ? std::optional(send.vals.size()) : std::nullopt);
    Request out{cmd, push, pull, send.priority, value_kind<Val>(), {}, std::move(gather), callback};
    SlicedKVs sliced;
    if (slicer_)
      slicer_(send, core_.ranges(), &sliced);
    else
      slice(send, &sliced);
    if (sliced.size() != core_.ranges().size())
      throw Failure(ErrorCode::kInvalidArgument, "the slicer made " + std::to_string(sliced.size()) +
                                                     " slices for " + std::to_string(core_.ranges().size()) +
                                                     " servers");
    for (std::size_t server = 0; server < sliced.size(); ++server) {
      auto& [some, part] = sliced[server];
      if (!some || part.keys.empty()) continue;
      const auto first = std::lower_bound(keys.begin(), keys.end(), part.keys.front()) - keys.begin();
      out.parts.push_back({static_cast<int>(server),
                           {part.keys, SArray<std::byte>(part.vals), part.lens},
                           static_cast<std::size_t>(first)});
    }
    return core_.send(std::move(out));
  }

  void slice(const KVPairs<Val>& send, SlicedKVs* sliced) const {
    for (const Slice& part : WorkerCore::slices(std::span(send.keys.data(), send.keys.size()),
                                                std::span(send.lens.data(), send.lens.size()),
                                                send.vals.size(), core_.ranges())) {
      KVPairs<Val> one;
      if (part.keys != 0) {
        one.keys = send.keys.segment(part.key, part.key + part.keys);
        if (part.vals != 0) one.vals = send.vals.segment(part.val, part.val + part.vals);
        if (!send.lens.empty()) one.lens = send.lens.segment(part.key, part.key + part.keys);
      }
      sliced->emplace_back(part.keys != 0, std::move(one));
    }
  }

  // Replies, one behind the other, into the caller's arrays.
  template <class Vals, class Lens>
  [[nodiscard]] static Gather into(Vals* vals, Lens* lens) {
    return [vals, lens](std::vector<Reply>& replies) {
      std::size_t values = 0;
      std::size_t keys = 0;
      for (const Reply& reply : replies) {
        values += reply.data.vals.size() / sizeof(Val);
        keys += reply.data.keys.size();
      }
      take_size(*vals, values, "values");
      if (lens != nullptr) take_size(*lens, keys, "lens");
      Val* to = vals->data();
      int* length = lens == nullptr ? nullptr : lens->data();
      for (const Reply& reply : replies) {
        const SArray<Val> got(reply.data.vals);
        to = std::copy(got.begin(), got.end(), to);
        if (length == nullptr) continue;
        if (!reply.data.lens.empty()) {
          length = std::copy(reply.data.lens.begin(), reply.data.lens.end(), length);
        } else if (!reply.data.keys.empty()) {
          const std::size_t each = got.size() / reply.data.keys.size();
          length = std::fill_n(length, reply.data.keys.size(), static_cast<int>(each));
        }
      }
    };
  }
  template <class Array>
  static void take_size(Array& array, std::size_t size, const char* what) {
    if (array.empty()) array.resize(size);
    if (array.size() != size)
      throw Failure(ErrorCode::kInvalidArgument, "there is room for " + std::to_string(array.size()) + " " +
                                                     what + ", and " + std::to_string(size) +
                                                     " came; give an empty array, or one as large");
  }

  Slicer slicer_{};
  WorkerCore core_;  // the last member: its thread uses the others
};

// How a server takes the pushes of several workers.
enum class Merge : std::uint8_t {
  kOff,  // each by itself, as it comes: asynchronous
  kSum,  // when all workers pushed the same keys, once, with their sum: KVMeta::num_merge and contributors
  // Likewise; but the handler is called as often as there were pushes, the first time with the sum, then with zeros: for
  // handlers that count requests until NumWorkers(). It answers each.
  kCounting,
};

template <class Val>
class KVServer {
 public:
  using ReqHandle = std::function<void(const KVMeta& meta, const KVPairs<Val>& data, KVServer* server)>;

  explicit KVServer(int app_id) : KVServer(Node::process(), app_id) {}
  KVServer(Node& node, int app_id) : core_(node, app_id) {}

  // Requests that come before it wait. The handler runs on the server's thread, one request after the other, and answers
  // each by Response, then or later, on any thread. What it throws fails the request; a Failure with its index.
  // check_room: of pushes that wait for other workers'; what it throws fails the round that has just begun, for all.
  void set_request_handle(const ReqHandle& handle, Merge merge = Merge::kOff,
                          typename MergeRounds<Val>::CheckRoom check_room = {}) {
    handle_ = handle;
    merge_ = merge;
    rounds_.emplace(core_.workers(), std::move(check_room));
    core_.serve(
        value_kind<Val>(), [this](Arrival arrival) { take(std::move(arrival)); },
        [this](int rank) {
          for (const KVMeta& meta : rounds_->take_hopeless(rank))
            core_.refuse(meta, MergeRounds<Val>::lacks(rank), Failure::kNoIndex);
          waiting_bytes_ = rounds_->bytes();
        });
  }
  // Of pushes that wait for other workers'. Any thread.
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return waiting_bytes_; }
  // To all workers that are in it, if it was merged.
  void Response(const KVMeta& request, const KVPairs<Val>& answer = {}) {
    core_.respond(request, {answer.keys, SArray<std::byte>(answer.vals), answer.lens});
  }
  // Their Wait throws.
  void Refuse(const KVMeta& request, const std::string& why, std::int64_t index = Failure::kNoIndex) {
    core_.refuse(request, why, index);
  }

 private:
  void take(Arrival arrival) {
    KVPairs<Val> data{arrival.data.keys, SArray<Val>(arrival.data.vals), arrival.data.lens, 0};
    if (merge_ == Merge::kOff || !arrival.meta.push) return handle_(arrival.meta, data, this);
    try {
      const auto complete = rounds_->add(arrival.meta, data);
      waiting_bytes_ = rounds_->bytes();
      for (const auto& round : complete) deliver(round.meta, round.data);
    } catch (const Failure&) {
      waiting_bytes_ = rounds_->bytes();
      throw;
    }
  }
  void deliver(const KVMeta& meta, const KVPairs<Val>& data) {
    try {
      if (merge_ == Merge::kSum) return handle_(meta, data, this);
      KVPairs<Val> zeros = data;
      zeros.vals = SArray<Val>(data.vals.size());
      const auto& parts = *meta.merged;
      for (std::size_t i = 0; i < parts.size(); ++i) handle_(parts[i], i == 0 ? data : zeros, this);
    } catch (const Failure& failure) {
      core_.refuse(meta, failure.what(), failure.index());
    } catch (const std::exception& error) {
      core_.refuse(meta, error.what(), Failure::kNoIndex);
    }
  }

  ReqHandle handle_{};
  Merge merge_ = Merge::kOff;
  std::optional<MergeRounds<Val>> rounds_{};
  std::atomic<std::size_t> waiting_bytes_{0};
  ServerCore core_;  // the last member: its thread uses the others
};

// One value for each key, which pushes are added to; a key that nobody pushed is 0.
template <class Val>
struct KVServerDefaultHandle {
  void operator()(const KVMeta& meta, const KVPairs<Val>& data, KVServer<Val>* server) {
    const std::size_t count = data.keys.size();
    if (meta.push && data.vals.size() != count)
      throw Failure(ErrorCode::kInvalidArgument, "this server has one value for each key, and " +
                                                     std::to_string(data.vals.size()) + " were pushed for " +
                                                     std::to_string(count) + " keys");
    KVPairs<Val> answer;
    if (meta.pull) {
      answer.keys = data.keys;
      answer.vals.resize(count);
    }
    for (std::size_t i = 0; i < count; ++i) {
      Val& value = store[data.keys[i]];
      if (meta.push) value = static_cast<Val>(value + data.vals[i]);
      if (meta.pull) answer.vals[i] = value;
    }
    server->Response(meta, answer);
  }
  std::unordered_map<Key, Val> store{};
};

// NOLINTEND(readability-identifier-naming)

}  // namespace tally::kv
