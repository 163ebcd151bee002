#pragma once
// Why a plan is as it is, as plain data: rate, what is full, how full everything is, what others would do. tally-plan
// reckons it of a file, tallyd of what runs; both tell it in the same words. Rates are in Gbit/s; a job's are those of
// every worker.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::plan_report {

// In the order of what is worth telling of several that are as full.
enum class Kind : std::uint8_t { kBox, kServer, kLink, kHostLink };

struct Load {
  std::string name{};  // "box rack3", "link rack1 to spine2"
  Kind kind = Kind::kBox;
  double load = 0;           // of the job
  double all = 0;            // of all jobs together
  double room = 0;           // what it can take, of all jobs
  bool lacks_slots = false;  // of a box: more it could take, had it more slot memory

  bool operator==(const Load&) const = default;
};

// What is worth telling first of loads that are in order: the fullest, and of hosts' links one alone, since there is one
// for each worker.
[[nodiscard]] std::vector<Load> fullest_of(const std::vector<Load>& loads);

// Ways to do without the plan, in the order in which they are told.
struct Way {
  std::string_view name;   // for programs
  std::string_view title;  // for people
};
inline constexpr std::array kWays{Way{"no_aggregation", "no aggregation"},
                                  Way{"own_rack_greedy", "boxes of own racks, each as full as it gets (ATP)"},
                                  Way{"own_rack", "boxes of own racks, at best"},
                                  Way{"own_or_server_rack", "boxes of own racks and the servers', at best"},
                                  Way{"equal_split", "equal parts to all servers, at best"},
                                  Way{"independent", "every worker draws its boxes, as published (InArt)"}};
// For people; of an unknown way its name.
[[nodiscard]] constexpr std::string_view title_of(std::string_view way) noexcept {
  for (const Way& one : kWays) {
    if (one.name == way) return one.title;
  }
  return way;
}

// What the workers would have without the plan.
struct Compared {
  std::string name{};            // of kWays
  std::optional<double> rate{};  // empty: it does not apply, or is too large to reckon
  bool operator==(const Compared&) const = default;
};

struct Part {
  std::string name{};        // of a box or a server
  std::uint32_t groups = 0;  // of the 1,024 groups of chunks, those that it has something of
  double share = 0;          // ... of all that workers send, in parts of one; of a server, of the gradient
  bool operator==(const Part&) const = default;
};

struct JobReport {
  std::string name{};
  std::size_t workers = 0;
  std::size_t racks = 0;  // with workers of it
  std::size_t parameter_servers = 0;
  std::uint64_t gradient = 0;  // bytes; 0: not known
  std::string why_not{};       // there is no plan, and why; empty: there is one, and what follows holds

  double rate = 0;
  double promised = 0;         // before it was rounded to groups
  double bound = 0;            // no plan exceeds it
  std::string form{};          // how its tables were found: "any box", "product form"
  std::string full{};          // what limits the rate; empty: nothing, the job wants no more
  std::size_t as_full = 0;     // so many more are
  bool lacks_slots = false;    // of what is full
  std::vector<Load> loads{};   // of what the job uses, the fullest first
  std::size_t more_loads = 0;  // that are left out of these
  std::vector<Compared> compared{};
  double ring = 0;            // around a ring of the workers, without boxes and servers; 0: not reckoned
  std::vector<Part> boxes{};  // what is left of 1 goes to the servers directly
  std::vector<Part> servers{};

  // A ring needs no box, so it is worth a word where it is faster.
  [[nodiscard]] bool ring_is_faster() const noexcept { return ring > rate; }
  bool operator==(const JobReport&) const = default;
};

}  // namespace tally::plan_report
