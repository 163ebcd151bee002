#pragma once
// The command line of tally-demo, for the person and for the processes it starts.

#include <cstdint>
#include <string>
#include <vector>

#include "tally/error.h"

namespace tally {

struct DemoOptions {
  enum class Role : std::uint8_t { kParent, kWorker, kHelp };
  Role role = Role::kParent;
  std::string tallyd{};  // program; empty: beside this one
  std::string config{};
  std::string loss{};    // percentage, empty: as the configuration says
  std::string driver{};  // of the switch's ports: af_xdp, af_packet; empty: memif, as the configuration says
  std::vector<std::string> hosts{};  // with a driver: the network namespace of each worker, as a file
  std::uint32_t iterations = 4;      // of the largest model (DemoModel::times); one costs about 20 s of CPU
  std::uint64_t seed = 1;
  bool verbose = false;
  std::string help{};
};

[[nodiscard]] Result<DemoOptions> parse_demo_options(int argc, const char* const* argv);

}  // namespace tally
