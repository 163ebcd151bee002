#pragma once
// The daemon's configuration, made fit for one run of the demo. Input is what `tallyd --dump-config` prints:
// every key, one to a line, so that any configuration a person may write arrives in the same form. Pure.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally {

struct DemoJobConfig {
  std::string name{};
  std::string token_file{};  // empty: none
  std::uint16_t workers = 0;
  std::string discipline{};  // pool, shared ...
  std::uint8_t priority = 0;

  // "shared, class 3"; "pool", where classes mean nothing.
  [[nodiscard]] std::string slots_text() const;
};

struct DemoConfig {
  std::string text{};  // the YAML to start tallyd with
  std::string box{};   // its address, 10.0.0.1
  std::uint32_t shared_slots = 0;
  std::vector<DemoJobConfig> jobs{};
  std::vector<std::string> transports{};  // TALLY_TRANSPORT of the worker on each port
  std::vector<std::string> addresses{};   // and its TALLY_ADDRESS
  std::vector<std::uint16_t> mtus{};      // and its TALLY_MTU
};

// What this run changes in a configuration.
struct DemoWish {
  std::string_view socket{};  // where its memif ports meet
  std::string_view loss{};    // a percentage for `impair:` of every port; empty: what the configuration says
  // af_xdp, af_packet: the i-th port becomes the kernel interface port<i>, and its worker uses sockets.
  // Empty: memif, as the configuration says.
  std::string_view driver{};
};
// Errors say what the demo needs of a configuration.
[[nodiscard]] Result<DemoConfig> make_demo_config(const std::string& dumped, const DemoWish& wish);

}  // namespace tally
