#pragma once
// What is wrong with a machine for a box: each finding says what, why it matters, and the command that mends
// it. What works is not told of. Pure but for the files of the machine.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "doctor/machine.h"

namespace tally::doctor {

using Json = nlohmann::ordered_json;

struct Finding {
  bool problem = false;  // something does not work, or will not; else it works, and slower or less surely
  std::string what{};    // a sentence without its end
  std::string why{};     // sentences
  std::string fix{};     // commands, or what to write in the configuration; one a line
  bool operator==(const Finding&) const = default;
};

// What a box asks of its machine. Without a box nobody asks for anything, and what is looked at is what most
// boxes need.
struct Wish {
  std::vector<std::uint16_t> cores{};  // CPUs of data cores
  std::uint64_t memory = 0;            // bytes, from hugepages if there are any
  std::optional<bool> hugepages{};     // dataplane.hugepages; empty: auto
  bool af_xdp = false;                 // a port of this kind
  std::vector<std::string> pci{};      // NICs, as 0000:3b:00.0
  std::string socket_directory = "/run/tally";
};

// Problems first.
[[nodiscard]] std::vector<Finding> examine(const Machine& machine, const Wish& wish);

// Of CPUs: a part of it. cpu_checks.cc.
void examine_cpus(const Machine& machine, const Wish& wish, std::vector<Finding>& findings);

[[nodiscard]] Json to_json(const std::vector<Finding>& findings);
// For people, in lines of at most 80 columns. answer: has "findings", of to_json() or of another version.
[[nodiscard]] std::string to_text(const Json& answer);
[[nodiscard]] bool any_problem(const Json& answer);

}  // namespace tally::doctor
