#pragma once
// What one seed means: the shape of the rack and of the jobs, the fault rates, and who suffers what and when.
// Rates are swarmed: each fault is present in some seeds and absent in others, so that rare combinations
// occur.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "network.h"
#include "rng.h"
#include "server_node.h"
#include "switch_node.h"
#include "worker_node.h"

namespace tally::sim {

enum class Blow : std::uint8_t {
  kPauseWorker,
  kPauseSwitch,
  kCrashWorker,
  kRestartDataPlane,
  kRestartSwitch,
  kAbortByWorker,
  kResize,  // the worker's job, if it is a pool that runs
  kPauseServer,
  kCrashServer,
  kCutUp,  // a link, in one direction
  kCutDown,
  kReplayControl,          // all that a worker said to control
  kStallSwitch,            // everything stands still and goes on with what has queued
  kReplayConversation,     // ... and what control said to it
  kRestartTwice,           // the switch, and once more while its members come back
  kRestartAndCrash,        // switch and worker at once
  kRestartAmidOldControl,  // and what some workers said before comes again, while some links are cut
  kReplan,                 // the worker's job, if it is one over several boxes
  kTakeOver,               // the box becomes the home of the worker's job, if it is one over several boxes
  kCutBoxOff,              // a box: nothing comes there any more, or nothing from there, or neither
  kDeafenBox,
  kMuteBox,
};

struct PlannedBlow {
  TimeNs when = 0;
  Blow what{};
  std::size_t worker = 0;  // or server
  TimeNs lasts = 0;
  std::uint32_t window = 0;  // kResize
  std::size_t box = 0;       // that it falls on, or whose link
};

// After the end of the last fault everything has completed within so long.
inline constexpr TimeNs kBound = 10 * kSecond;

struct Scenario {
  std::uint64_t seed = 0;
  SwitchOptions box;
  std::vector<SwitchOptions> others;  // boxes behind it, of jobs over several
  std::size_t racks =
      0;  // of the others, the first ones: boxes of racks, whose parent `box` is; their links to it are
          // those of endpoints behind all others
  LinkOptions link;
  Faults faults;
  std::vector<std::pair<std::size_t, Faults>> link_faults;  // links with faults of their own
  TimeNs made_up_every = 0;  // on average so often a packet comes that nobody sent; 0: never
  std::vector<WorkerOptions> workers;
  std::vector<ServerOptions> servers;  // external ones; their links are behind the workers'
  std::vector<PlannedBlow> blows;
  TimeNs heal_at = 0;  // faults end
  std::uint32_t operations = 3;
  std::uint32_t largest = 2000;  // elements of an operation
  bool tables = false;           // operations are of rows, of which each rank has some
};

// Present in half of the seeds; then anywhere up to `most`, small rates as likely as large ones.
[[nodiscard]] double often_none(Rng& rng, double most);

[[nodiscard]] Scenario scenario_of(std::uint64_t seed);
// Of jobs that 2 to 8 boxes sum together.
[[nodiscard]] Scenario boxes_scenario_of(std::uint64_t seed);
// Of jobs with memory of their own that sum rows of tables.
[[nodiscard]] Scenario sparse_scenario_of(std::uint64_t seed);
// Of a job whose workers have a table (table_life.h): nobody has a plan of operations, and who crashes stays away.
[[nodiscard]] Scenario tables_scenario_of(std::uint64_t seed);
// Of jobs of racks, whose boxes have a parent.
[[nodiscard]] Scenario racks_scenario_of(std::uint64_t seed);
[[nodiscard]] std::string describe(const Scenario& scenario);

}  // namespace tally::sim
