#pragma once
// An ideal box for worker engines: membership and pool aggregation without slots, limits or loss of its own,
// which checks every packet it gets against the protocol.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/worker_join.h"
#include "engine_datagrams.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/wire.h"

namespace tally::testbed {

struct JobShape {
  std::uint16_t world = 2;
  std::uint32_t window = 16;
  std::uint32_t largest_window = 16;
  std::uint32_t lookahead = 16;
  std::uint16_t elements = 32;
  std::uint32_t first_chunk = 0;
  std::uint8_t shards = 1;
  std::uint32_t lease_ms = 10'000;
  std::uint16_t most_advanced = 0;
  Discipline discipline = Discipline::kPool;
  std::uint32_t shared_slots = 0;
  std::uint64_t salt = 0;
  std::uint8_t max_priority = 0;  // 0: the box does not say
  bool stragglers = false;        // results may be INCOMPLETE
  bool sparse = false;            // rows and runs of zeros may be used
};

struct Sent {
  std::uint16_t rank = 0;  // receiver
  Bytes bytes;
};

class Box {
 public:
  explicit Box(const JobShape& of) : shape(of) {}

  std::vector<Sent> receive(const Bytes& datagram, std::uint16_t port);

  // Loses all entries and, until every rank has joined again, knows no epoch.
  void restart(bool new_generation = false);
  [[nodiscard]] bool running() const { return joined_.size() == shape.world; }
  [[nodiscard]] Bytes joined(JoinStatus status, std::uint64_t nonce, std::uint16_t rank,
                             const std::string& text = {}) const;
  // Of a data core: waiting, or a hint.
  [[nodiscard]] Bytes reject(RejectReason reason, const Header& rejected, std::uint64_t cookie = 0,
                             std::uint64_t contributors = 0) const;
  // Of control: the rank is called back; or, to a HEARTBEAT, that its epoch is unknown.
  [[nodiscard]] Bytes call_back(std::uint16_t rank) const;
  [[nodiscard]] Bytes unknown_epoch(const Bytes& heartbeat) const;
  [[nodiscard]] Bytes abort(const std::string& text, std::uint16_t rank = 0) const;
  [[nodiscard]] Bytes echo(PacketType type, std::uint16_t rank) const;  // of HEARTBEAT or LEAVE
  // The worker does not hear its JOIN's answer before it has brought the challenge.
  [[nodiscard]] static Bytes challenge(std::uint64_t nonce);
  [[nodiscard]] Header from_box(PacketType type) const;  // current epoch, result cookie
  // The RESULT of a contribution to which every other rank contributed zeros and the same exponent. No chunk
  // before it is finished.
  [[nodiscard]] Bytes result_of(const Bytes& contribution) const;
  // The same with zeros of these ranks only; of nobody: the ANSWER of a peer that has forgotten the chunk.
  [[nodiscard]] Bytes result_of(const Bytes& contribution, std::uint64_t ranks) const;
  [[nodiscard]] std::uint32_t slot_of(std::uint32_t chunk) const;
  // Of options_of().
  [[nodiscard]] static auth::Key job_key() { return auth::job_key("test", "secret"); }
  [[nodiscard]] static std::uint64_t instance_of(std::uint16_t rank) { return 1000U + rank; }
  // As a rank shall see it.
  [[nodiscard]] engine::Membership epoch_of(std::uint16_t rank) const;
  [[nodiscard]] std::uint64_t cookie_of(std::uint16_t rank) const { return 0xC000 + 0x100 * epoch + rank; }
  [[nodiscard]] std::uint64_t result_cookie() const { return 0xAB00000000ULL + epoch; }

  JobShape shape;
  std::uint16_t job = 7;
  std::uint32_t epoch = 100;
  std::uint64_t generation = 0x1234567890abcdefULL;
  std::map<std::uint16_t, std::vector<Header>> joins;  // JOIN headers by rank
  std::map<std::uint16_t, JoinPayload> last_join;
  std::map<std::uint16_t, std::uint64_t> counters;  // greatest of each rank
  std::vector<std::string> aborts;
  std::set<std::uint16_t> left;
  std::uint64_t contributions = 0;
  std::uint64_t queries = 0;
  std::uint64_t answers = 0;
  std::uint64_t overflow_results = 0;
  std::uint64_t runs = 0;         // of zeros: received,
  std::uint64_t result_runs = 0;  // and said, to all
  bool in_order = true;           // the network neither reorders nor duplicates

 private:
  struct Entry {
    std::uint64_t contributors = 0;
    Header header;
    std::vector<std::uint32_t> sum;
    std::uint32_t sum1 = 0;
    std::uint32_t sum2 = 0;
    std::uint8_t flags = 0;
    int exponent = -128;
  };
  struct Offered {
    std::vector<std::int32_t> values;
    Header header;
  };

  [[nodiscard]] std::uint64_t members() const {
    return members_of(std::min<std::uint32_t>(shape.world, kMaxRanks));
  }
  [[nodiscard]] std::uint32_t key_of(std::uint16_t rank) const {
    return rank_key(Generation{generation}, Rank{rank});
  }
  void join(const Bytes& datagram, std::vector<Sent>& out);
  void contribute(const Bytes& datagram, std::uint16_t port, std::vector<Sent>& out);
  void zero_run(const Bytes& datagram, std::uint16_t port, std::vector<Sent>& out);
  void check_sending(const Header& h, std::uint16_t port);
  // True: it was the last one.
  bool merge(const Header& h, const std::vector<std::int32_t>& values, std::vector<Sent>& out);
  void say_result(std::uint32_t chunk, std::vector<Sent>& out) const;
  void query(const Header& header, std::vector<Sent>& out);
  void answer(const Bytes& datagram, std::vector<Sent>& out);
  [[nodiscard]] std::uint32_t before(
      std::uint32_t chunk) const;  // those that are finished, as its RESULT says
  [[nodiscard]] Bytes result(std::uint32_t chunk, const Entry& entry, std::uint32_t before) const;
  [[nodiscard]] Bytes result_run(const Header& run, std::uint64_t chunks) const;
  [[nodiscard]] Bytes repeated(std::uint32_t chunk, const Entry& entry) const;

  std::map<std::uint16_t, std::uint64_t> joined_;  // rank -> newest nonce
  std::map<std::uint32_t, Entry> entries_;
  std::map<std::pair<std::uint16_t, std::uint32_t>, Offered>
      offered_;  // what each rank contributed, any epoch
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint32_t>, std::set<std::uint32_t>>
      sequences_;  // by epoch, rank and shard
};

}  // namespace tally::testbed
