#pragma once
// A box's fleet at one moment, as plain data.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tally/time.h"

namespace tally::api {

struct FleetBox {
  std::string id{};
  std::string name{};
  std::uint64_t since = 0;  // seconds of the calendar, by its own clock
  std::vector<std::string> addresses{};
  std::uint64_t rate = 0;  // bit/s; 0: not known
  std::uint32_t cores = 0;
  std::uint64_t free_slots = 0;
  std::uint64_t free_bytes = 0;
};

struct FleetJob {
  std::string name{};
  std::string home{};       // a box; empty: none at the moment
  std::uint32_t epoch = 0;  // of its newest plan; 0: none
  std::string left{};       // without a home: why this box, whose job it is, does not take it
};

struct BadRecord {
  std::string key{};
  std::string why{};
};

struct FleetStatus {
  std::string id{};      // of this box
  std::string prefix{};  // of the fleet
  std::vector<std::string> endpoints{};
  std::string standing{};         // "joining", "member", "taken", "ignored", "refused", "away", "left"
  TimeNs since = 0;               // by the snapshot's clock; of away: when the store answered last
  std::string text{};             // why, of taken, ignored, refused, away; of joining if somebody has the ID
  bool known = false;             // the fleet was read once
  std::string planner{};          // a box; empty: none at the moment
  TimeNs planner_since = 0;       // by the snapshot's clock, as this box saw it; 0: nobody plans
  bool is_planner = false;        // this one, and its lease holds
  std::vector<FleetBox> boxes{};  // by id, this one too
  std::vector<FleetJob> jobs{};
  std::vector<BadRecord> bad{};  // the first ones, by key
  std::size_t bad_now = 0;
  std::uint64_t bad_total = 0;  // read since the start
  std::uint64_t leases_lost = 0;
  std::uint64_t reads = 0;  // of the whole fleet
};

}  // namespace tally::api
