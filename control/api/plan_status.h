#pragma once
// What the planner has made of this box's jobs, and the cluster that it planned for, at one moment, as plain data.
// Rates are in Gbit/s.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan_report/report.h"
#include "tally/time.h"

namespace tally::api {

// A plan in force, or about to be; or why there is none (report.why_not).
struct PlannedJob {
  plan_report::JobReport report{};
  std::string home{};     // the box whose members it is for: a name, or an address
  bool here = true;       // that is this one
  std::string planner{};  // who made it, a box; empty: its home
  TimeNs planned = 0;     // when, by the snapshot's clock; 0: not known
  std::string why{};      // what it was made for: "first", "lost box rack3", "drift of link rack1 to spine1"
  std::string effort{};   // "at once", "product", "full"
  std::uint32_t epoch = 0;        // that it is for; 0: not known
  std::optional<TimeNs> pause{};  // of the job when it came into force, if that is known
  std::string better{};           // what happens next: "a better plan is being reckoned"; empty: nothing
};

enum class PlaceState : std::uint8_t {
  kUp,
  kLost,     // members lost it, or its rate was set to 0
  kUnknown,  // the cluster has it, and no job here
};

struct PlanTopology {
  struct Switch {
    std::string name{};
    bool rack = false;  // hosts hang on it
    std::size_t hosts = 0;
    std::size_t workers = 0;  // of all jobs, that are there
    // Of its hosts' links the fullest, one way; rate 0: there is none with a load.
    double nic_rate = 0;
    double nic_load = 0;
  };
  struct Link {
    std::uint32_t from = 0;  // switches
    std::uint32_t to = 0;
    double rate = 0;  // 0: it is down
    double load = 0;  // of all jobs
  };
  struct Box {
    std::string name{};
    std::string address{};  // empty: not known
    std::uint32_t at = 0;   // a switch
    double rate = 0;        // what it can take, with its slot memory
    double load = 0;
    PlaceState state = PlaceState::kUp;
    bool here = false;  // it is this one
  };
  struct Server {
    std::string name{};
    std::uint32_t at = 0;  // the rack of its host
    double rate = 0;
    double load = 0;
    PlaceState state = PlaceState::kUp;
  };
  std::vector<Switch> switches{};
  std::vector<Link> links{};  // one direction each; not those of hosts
  std::vector<Box> boxes{};
  std::vector<Server> servers{};
};

struct PlanStatus {
  std::string
      cluster{};  // the file that says what the cluster is; empty: none is given, and all plans are even
  std::string
      trouble{};  // why nothing is planned at the moment: "the file has errors; the last good one counts"
  std::string planner{};           // who plans, a box of the fleet; empty: each home for itself
  TimeNs planner_since = 0;        // by the snapshot's clock, as this box saw it; 0: no planner of a fleet
  bool is_planner = true;          // this box plans: for its own jobs, or for the fleet
  std::vector<PlannedJob> jobs{};  // by name; of other boxes too, where they are known
  PlanTopology topology{};         // empty without a cluster
  // How often plans came into force here since the start, by what they were made for: "first", "lost", "drift",
  // "misses", "gain", "refine", "asked", "rate", "returned", "renewed", "fleet".
  struct Changes {
    std::string why{};
    std::uint64_t count = 0;
  };
  std::vector<Changes> changes{};
};

}  // namespace tally::api
