#pragma once
// The keys of a fleet and what stands in them. Everybody who may write to the store may write anything: a record is
// taken whole, as it is described here, or not at all, and the reason is a sentence.
//
//   PREFIX/box/ID            a box that lives, under its lease
//   PREFIX/job/NAME          what a job is
//   PREFIX/job/NAME/home     its home, under the home's lease
//   PREFIX/plan/NAME/EPOCH   who aggregates what from that epoch on; EPOCH has ten digits
//   PREFIX/planner           who plans, under its lease

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "tally/wire.h"

namespace tally::fleet {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMostBoxes = 64;
inline constexpr std::size_t kMostRacks = 64;
inline constexpr std::size_t kPlanGroups = 1024;  // of chunks; a chunk's group is its number mod this
inline constexpr std::uint8_t kNoBox = 255;       // of a plan's entry: straight to the server
inline constexpr std::size_t kMostIdBytes = 63;
inline constexpr std::size_t kMostSpecBytes = 65'536;
inline constexpr std::size_t kMostAddresses = 16;
inline constexpr std::size_t kMostAddressBytes = 255;

struct BoxRecord {
  std::string name{};                    // for people
  std::uint64_t life = 0;                // of the process: another one after each start; not 0
  std::uint64_t since = 0;               // seconds of the calendar when it registered
  std::vector<std::string> addresses{};  // where members and other boxes reach it
  std::uint64_t rate = 0;                // bit/s of its ports together; 0: it does not know
  std::uint32_t cores = 0;
  std::uint64_t free_slots = 0;
  std::uint64_t free_bytes = 0;  // of slot memory
  bool operator==(const BoxRecord&) const = default;
};

struct JobRecord {
  std::string name{};
  Json spec = Json::object();
  bool operator==(const JobRecord&) const = default;
};

// A home, or the planner.
struct SeatRecord {
  std::string box{};
  std::uint64_t life = 0;
  bool operator==(const SeatRecord&) const = default;
};

// Of one chunk group at one rack.
struct PlanEntry {
  std::uint8_t box = 0;     // its place in PlanRecord::boxes, or kNoBox if there are servers
  std::uint8_t server = 0;  // below PlanRecord::servers, or 0 if there are none
  bool operator==(const PlanEntry&) const = default;
};
using PlanTable = std::array<PlanEntry, kPlanGroups>;

struct PlanRecord {
  std::string job{};
  std::uint64_t generation = 0;
  std::uint32_t epoch = 0;           // not 0; as in its key
  std::vector<std::string> boxes{};  // 1..kMostBoxes IDs, no two the same
  std::uint32_t servers = 0;
  std::vector<PlanTable> racks{};  // 1..kMostRacks; one: for all of them
  bool operator==(const PlanRecord&) const = default;
};

// What a key is about.
struct BoxKey {
  std::string id{};
};
struct JobKey {
  std::string job{};
};
struct HomeKey {
  std::string job{};
};
struct PlanKey {
  std::string job{};
  std::uint32_t epoch = 0;
};
struct PlannerKey {};
using Key = std::variant<BoxKey, JobKey, HomeKey, PlanKey, PlannerKey>;

class Keys {
 public:
  // prefix: objection_to_prefix() is empty.
  explicit Keys(const std::string& prefix) : root_(prefix + "/") {}

  [[nodiscard]] const std::string& root() const noexcept { return root_; }  // all keys begin with it
  [[nodiscard]] std::string box(std::string_view id) const { return root_ + "box/" + std::string(id); }
  [[nodiscard]] std::string job(std::string_view name) const { return root_ + "job/" + std::string(name); }
  [[nodiscard]] std::string home(std::string_view job_name) const { return job(job_name) + "/home"; }
  [[nodiscard]] std::string plans(std::string_view job_name) const {
    return root_ + "plan/" + std::string(job_name) + "/";
  }
  [[nodiscard]] std::string plan(std::string_view job_name, std::uint32_t epoch) const;
  [[nodiscard]] std::string planner() const { return root_ + "planner"; }

  // Empty: no key of a fleet.
  [[nodiscard]] std::optional<Key> parse(std::string_view key) const;

 private:
  std::string root_;
};

// Why a prefix is none; empty: it is fine. As paths are: /tally, /site/rack-7.
[[nodiscard]] std::string objection_to_prefix(std::string_view prefix);

// As they stand in the store. What is written can be read: a record beyond its limits is the caller's mistake.
[[nodiscard]] std::string text_of(const BoxRecord& record);
[[nodiscard]] std::string text_of(const JobRecord& record);
[[nodiscard]] std::string text_of(const SeatRecord& record);
[[nodiscard]] std::string text_of(const PlanRecord& record);

// The record, or why it is none. Any bytes.
template <class Record>
using Readout = tl::expected<Record, std::string>;
[[nodiscard]] Readout<BoxRecord> read_box(std::string_view value);
[[nodiscard]] Readout<JobRecord> read_job(std::string_view name, std::string_view value);
[[nodiscard]] Readout<SeatRecord> read_seat(std::string_view value);
[[nodiscard]] Readout<PlanRecord> read_plan(const PlanKey& key, std::string_view value);

// What is wrong with a plan, as text_of() would write it; empty: nothing.
[[nodiscard]] std::string objection_to(const PlanRecord& plan);

}  // namespace tally::fleet
