#pragma once
// A store of records that several processes share, as etcd is one: every change has a revision, keys may live under a
// lease, and whoever watches hears of every change in its order. Requests go in, news come out, nothing blocks. Of the
// implementations control/etcd is the one of the product. Owner: one thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "tally/time.h"

namespace tally::fleet {

using Revision = std::int64_t;  // of the whole store, 1 and more; 0: none
using LeaseId = std::int64_t;   // 0: none
using Ticket = std::uint64_t;   // of a request, 1 and more
using WatchId = std::uint64_t;  // 1 and more

// A larger value is refused before it is sent: etcd takes requests of 1.5 MiB.
inline constexpr std::size_t kMostValueBytes = std::size_t{1} << 20U;
inline constexpr std::size_t kMostKeyBytes = 1024;

struct Pair {
  std::string key{};
  std::string value{};
  Revision created = 0;
  Revision modified = 0;
  LeaseId lease = 0;
  bool operator==(const Pair&) const = default;
};

// One key, or all that begin with a text.
struct KeyRange {
  std::string key{};
  bool prefix = false;
};

struct Read {
  KeyRange what{};
  bool newest = false;  // only the one that was modified last; Reply::count is of all the same
};
struct Put {
  std::string key{};
  std::string value{};
  LeaseId lease = 0;
};
struct Erase {
  KeyRange what{};
};
// The keys from `key` on that are smaller than `end`.
struct EraseUpTo {
  std::string key{};
  std::string end{};
};

struct Compare {
  enum class Of : std::uint8_t { kCreated, kModified, kValue };
  std::string key{};
  Of of = Of::kCreated;
  Revision revision = 0;  // of kCreated, kModified; 0: there is no such key
  std::string value{};    // of kValue
};
using Step = std::variant<Read, Put, Erase, EraseUpTo>;
// All steps of one side or none, at one revision.
struct Transaction {
  std::vector<Compare> compare{};
  std::vector<Step> then{};
  std::vector<Step> otherwise{};
};

struct Grant {
  TimeNs ttl = 0;  // whole seconds
};
struct KeepAlive {
  LeaseId lease = 0;
};
struct Revoke {
  LeaseId lease = 0;
};

using Request = std::variant<Read, Put, Erase, Transaction, Grant, KeepAlive, Revoke>;

enum class Fault : std::uint8_t {
  kUnreachable,  // no answer in time, from no server
  kRefused,      // who asks may not, or the store does not know it
  kTooLarge,
  kCompacted,  // that revision is not kept any more
  kNoLease,    // that lease is over
  kInvalid,    // the store does not take such a request
};

struct StoreError {
  Fault fault = Fault::kUnreachable;
  std::string text{};    // a sentence
  bool perhaps = false;  // it may have been done, or be done later
};

struct Reply {
  Revision revision = 0;                   // of the store when it was done
  std::vector<Pair> pairs{};               // of a Read
  std::uint64_t count = 0;                 // of a Read: how many keys there are
  bool held = false;                       // of a Transaction: all comparisons did
  std::vector<std::vector<Pair>> reads{};  // of a Transaction: of each Read that was done, in their order
  LeaseId lease = 0;                       // of a Grant
  TimeNs ttl = 0;                          // of a Grant or KeepAlive; 0: the lease is over
};

using StoreResult = tl::expected<Reply, StoreError>;

struct Answer {
  Ticket ticket = 0;
  StoreResult reply;
};

struct Change {
  bool erased = false;  // pair: key and `modified` alone
  Pair pair{};
};
// All changes of one or several revisions, the last of which is `revision`; in their order, none left out.
struct Changes {
  WatchId watch = 0;
  Revision revision = 0;
  std::vector<Change> changes{};
};
// This watch is over: changes are missing that the store does not know any more. Read anew.
struct WatchOver {
  WatchId watch = 0;
  std::string text{};
};
using News = std::variant<Answer, Changes, WatchOver>;

class Store {
 public:
  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  // There will be one Answer, soon after `deadline` (of steady_now()) at the latest. Requests about leases and all
  // others are done in the order of their own kind.
  virtual Ticket ask(Request request, TimeNs deadline) = 0;
  // Changes of keys that begin with `prefix`, from revision `from` on. It lives as long as it can be continued without
  // a gap, whatever connections do.
  virtual WatchId watch(std::string prefix, Revision from) = 0;
  virtual void unwatch(WatchId watch) = 0;
  // What has come since the last call, in its order.
  virtual std::vector<News> take() = 0;
};

// Why a request is refused before it is sent; empty: it is not. What every store does first.
[[nodiscard]] std::string objection_to(const Request& request);

}  // namespace tally::fleet
