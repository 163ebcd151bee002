#pragma once
// Worker engines and several scripted boxes, one of them the home of their job (docs/protocol_boxes.md). What the
// boxes sum, an ideal box sums behind all of them; each one sees to it that what it gets was for it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/worker_engine.h"
#include "engine_testbed.h"
#include "ideal_box.h"
#include "tally/net.h"
#include "tally/plan.h"
#include "tally/time.h"

namespace tally::testbed {

inline constexpr std::size_t kHome = 0;
inline constexpr TimeNs kGuestSilence = kSecond;  // a tenth of the lease of 10 s

// Of the box with this number in a scene.
[[nodiscard]] Ipv6 address_of_box(std::size_t box);
// Boxes 0..boxes-1, one table for each rank, routes at random; about one in eight direct.
[[nodiscard]] Plan random_plan(std::size_t boxes, std::uint16_t world, std::uint64_t seed);
// All ranks send group g to box g mod boxes.
[[nodiscard]] Plan even_plan(std::size_t boxes, std::uint16_t world);
[[nodiscard]] JobShape planned_shape(std::uint16_t world, std::uint32_t window = 16);

// How one box behaves, and what it heard.
struct ScriptedBox {
  bool silent = false;              // hears and says nothing
  bool holds = false;               // answers ENLIST by forming
  bool refuses = false;             // ... by refused, with a right tag
  bool unknown = false;             // answers JOIN and ENLIST by refused, without a tag: no such job
  std::optional<Ipv6> elsewhere{};  // where it sends who JOINs
  std::uint16_t job = 0;
  std::uint8_t shards = 1;

  std::map<PacketType, std::uint64_t> heard{};
  std::uint64_t epoch = 0;                          // whose members and pages it knows
  std::map<std::uint16_t, std::uint64_t> nonces{};  // of the newest ENLIST
  std::map<std::uint16_t, std::uint32_t> attempts{};
  std::map<std::uint16_t, EnlistPayload> enlists{};
  std::map<std::uint16_t, std::uint64_t> counters{};
  std::set<std::uint16_t> enlisted{};
  std::set<std::uint16_t> left{};
  std::map<std::uint8_t, Bytes> pages{};
  // By epoch, rank and shard.
  std::map<std::tuple<std::uint32_t, std::uint16_t, std::uint32_t>, std::set<std::uint32_t>> sequences{};
  [[nodiscard]] std::uint64_t of(PacketType type) const {
    const auto at = heard.find(type);
    return at == heard.end() ? 0 : at->second;
  }
};

class BoxesScene {
 public:
  BoxesScene(const JobShape& shape, Plan of, std::size_t spare_boxes = 0);

  engine::WorkerEngine& operator[](std::size_t rank) { return *engines[rank]; }
  ScriptedBox& at(std::size_t box) { return boxes[box]; }
  // Delivers and lets time pass until `done` or the virtual time limit; true if done.
  bool run_until(const std::function<bool()>& done, TimeNs limit = 60 * kSecond);
  bool run_for(TimeNs time) {
    return !run_until([] { return false; }, time);
  }
  bool run_until_running();
  bool run_until_enlisted();
  // One allreduce of 1s (rank r: r + 1) of so many chunks at all ranks, until it is done; false: it is not, or wrong.
  bool reduce(std::size_t chunks, TimeNs limit = 60 * kSecond);
  engine::OperationId submit(std::size_t rank, std::size_t chunks);
  // The newest operation of each rank, when it is done.
  [[nodiscard]] bool sums_are_right() const;

  // The home begins another epoch with this plan, and calls its members back.
  void change_plan(Plan to);
  // What a box says to a rank.
  [[nodiscard]] Bytes from_box(std::size_t box, PacketType type, std::uint16_t rank) const;
  [[nodiscard]] Bytes forgets(std::size_t box, std::uint16_t rank) const;  // REJECT of control, reason 1
  void say(std::size_t box, std::uint16_t rank, Bytes bytes);              // arrives after the latency
  // At once; the box is found as a transport finds it.
  void deliver(std::size_t box, std::uint16_t rank, const Bytes& bytes);
  [[nodiscard]] auth::Key session_of(std::size_t box, std::uint16_t rank) const;
  [[nodiscard]] std::size_t plan_index(std::size_t box) const;  // in the plan; its size if it is not there
  [[nodiscard]] bool known_everywhere(std::uint16_t rank) const;

  Box sum;  // of the home's job; what it adds up, all boxes do
  Plan plan;
  std::vector<std::byte> plan_written;
  PlanId plan_name{};
  std::vector<ScriptedBox> boxes;
  std::size_t home = kHome;  // which box is the home
  std::vector<std::unique_ptr<engine::WorkerEngine>> engines;
  std::map<std::uint16_t, LostPayload> lost;  // newest LOST of each rank
  std::uint64_t losts = 0;                    // heard by the home
  std::map<std::pair<std::size_t, engine::OperationId>, Result<OperationStats>> completed;
  TimeNs now = 0;
  TimeNs latency = 50 * kMicrosecond;
  // true: lose it.
  std::function<bool(bool to_box, std::size_t box, std::uint16_t rank, const Header&)> lose;
  std::function<TimeNs()> delay;
  std::function<unsigned()> copies;
  // Told of all that arrives at a box.
  std::function<void(std::size_t box, const Header&, const Bytes&, TimeNs)> watch;

 private:
  struct Flying {
    bool to_box = false;
    std::size_t box = 0;
    std::uint16_t rank = 0;
    std::uint16_t port = 0;
    Bytes bytes;
  };
  void set_plan(Plan to);
  void send(const Flying& flying);
  void step();
  void arrive(const Flying& flying);
  void control_of_home(std::size_t box, const Bytes& bytes);
  void control_of_guest(std::size_t box, const Bytes& bytes);
  void enlist(std::size_t box, const Bytes& bytes);
  void take_page(std::size_t box, const Bytes& bytes);
  void give_page(const Bytes& bytes);
  void take_lost(const Bytes& bytes);
  void data(std::size_t box, std::uint16_t port, const Bytes& bytes);
  void say_all(std::size_t box, const std::vector<Sent>& all);
  [[nodiscard]] Bytes planned(const Bytes& joined) const;
  [[nodiscard]] Bytes joined_by_guest(std::size_t box, std::uint16_t rank, JoinStatus status,
                                      std::uint64_t missing) const;
  [[nodiscard]] Bytes refused(std::size_t box, std::uint16_t rank, std::uint64_t nonce, const Bytes& text,
                              JoinStatus status, bool proven) const;
  [[nodiscard]] std::size_t route_of(std::uint16_t rank, std::uint32_t chunk) const;

  std::multimap<TimeNs, Flying> flying_;
  bool lost_some_ = false;
  std::vector<std::vector<std::vector<std::int32_t>>> values_;  // by rank, of its operations
};

}  // namespace tally::testbed
