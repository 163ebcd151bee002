#pragma once
// The keys of a fleet and what stands in them. Everybody who may write to the store may write anything: what this
// version knows of a record is taken whole, as it is described here, or not at all, and the reason is a sentence.
//
// Boxes of a fleet are upgraded one by one, so versions read each other's records (docs/fleet.md). A member that is new
// may be missing, and who does not know it does without it; one that this will not do for makes another `format`. What
// is new of a job stands in its spec, which a home of any version writes as it found it.
//
//   PREFIX/box/ID            a box that lives, under its lease
//   PREFIX/job/NAME          what a job is
//   PREFIX/job/NAME/home     its home, under the home's lease
//   PREFIX/job/NAME/facts    where its members are while it runs, as its home says, under the home's lease
//   PREFIX/plan/NAME/NUMBER  who aggregates what, for facts that it names; NUMBER has ten digits, plans count up
//   PREFIX/planner           who plans, under its lease

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "tally/plan.h"
#include "tally/wire.h"

namespace tally::fleet {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t kMostBoxes = 64;
inline constexpr std::size_t kMostIdBytes = 63;
inline constexpr std::size_t kMostSpecBytes = 65'536;
inline constexpr std::size_t kMostAddresses = 16;
inline constexpr std::size_t kMostAddressBytes = 255;
inline constexpr std::size_t kMostRates = 256;
inline constexpr double kMostRate = 1e6;  // Gbit/s

struct BoxRecord {
  std::string name{};                    // for people
  std::uint64_t life = 0;                // of the process: another one after each start; not 0
  std::uint64_t since = 0;               // seconds of the calendar when it registered
  std::vector<std::string> addresses{};  // where members and other boxes reach it
  std::uint64_t rate = 0;                // bit/s of its ports together; 0: it does not know
  std::uint32_t cores = 0;
  std::uint64_t free_slots = 0;
  std::uint64_t free_bytes = 0;  // of slot memory
  // Gbit/s that resources of the cluster have, as an operator has said at this box; at most kMostRates.
  std::map<std::string, double> set_rates{};
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

// What a planner must know of a job that runs; nobody else has to be asked.
struct FactsRecord {
  std::uint64_t number = 0;  // not 0; another one whenever anything below is another, at all homes of the job
  std::vector<std::string> ranks{};    // addresses, by rank; 1..kMaxRanks
  std::vector<std::string> servers{};  // addresses, by index; 1..kMaxServers
  std::vector<std::string> boxes{};    // addresses of the job's; 1..kMostBoxes
  std::uint64_t usable = 0;            // a bit for each of them that a plan may have; not 0
  // Gbit/s that boxes take in of the job at most, for they had no slots for more; by address.
  std::map<std::string, double> limits{};
  bool operator==(const FactsRecord&) const = default;
};

// Stands as it travels to the job's members (tally/plan.h), in base64: at most 91 kB.
struct PlanRecord {
  std::string job{};
  std::uint64_t facts = 0;   // FactsRecord::number that it is for; a home with others has no use for it
  std::uint32_t number = 0;  // not 0; as in its key
  Plan plan{};
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
struct FactsKey {
  std::string job{};
};
struct PlanKey {
  std::string job{};
  std::uint32_t number = 0;
};
struct PlannerKey {};
using Key = std::variant<BoxKey, JobKey, HomeKey, FactsKey, PlanKey, PlannerKey>;

class Keys {
 public:
  // prefix: objection_to_prefix() is empty.
  explicit Keys(const std::string& prefix) : root_(prefix + "/") {}

  [[nodiscard]] const std::string& root() const noexcept { return root_; }  // all keys begin with it
  [[nodiscard]] std::string box(std::string_view id) const { return root_ + "box/" + std::string(id); }
  [[nodiscard]] std::string job(std::string_view name) const { return root_ + "job/" + std::string(name); }
  [[nodiscard]] std::string home(std::string_view job_name) const { return job(job_name) + "/home"; }
  [[nodiscard]] std::string facts(std::string_view job_name) const { return job(job_name) + "/facts"; }
  [[nodiscard]] std::string plans(std::string_view job_name) const {
    return root_ + "plan/" + std::string(job_name) + "/";
  }
  [[nodiscard]] std::string plan(std::string_view job_name, std::uint32_t number) const;
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
[[nodiscard]] std::string text_of(const FactsRecord& record);
[[nodiscard]] std::string text_of(const PlanRecord& record);

// The record, or why it is none. Any bytes.
template <class Record>
using Readout = tl::expected<Record, std::string>;
[[nodiscard]] Readout<BoxRecord> read_box(std::string_view value);
[[nodiscard]] Readout<JobRecord> read_job(std::string_view name, std::string_view value);
[[nodiscard]] Readout<SeatRecord> read_seat(std::string_view value);
[[nodiscard]] Readout<FactsRecord> read_facts(std::string_view value);
[[nodiscard]] Readout<PlanRecord> read_plan(const PlanKey& key, std::string_view value);

// What is wrong with them, as text_of() would write them; empty: nothing.
[[nodiscard]] std::string objection_to(const FactsRecord& facts);
[[nodiscard]] std::string objection_to(const PlanRecord& plan);

}  // namespace tally::fleet
