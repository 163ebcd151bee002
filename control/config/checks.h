#pragma once
// What no key can say alone. A value that is already wrong by itself takes no part.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "config/config.h"
#include "config/diagnostic.h"
#include "pipeline/fit.h"

namespace tally::config {

struct Checking {
  Config& config;
  const Places& places;
  Report& report;
  std::size_t first = 0;  // jobs before this one run already, with their defaults and tokens

  // About the value of this path, where it stands.
  void error(const std::string& path, std::string message, std::string help) const {
    report.error(places.of(path), path, {std::move(message), std::move(help)});
  }
  void warning(const std::string& path, std::string message, std::string help) const {
    report.warning(places.of(path), path, {std::move(message), std::move(help)});
  }
  [[nodiscard]] bool sound(std::initializer_list<std::string> paths) const {
    return std::ranges::all_of(paths, [&](const std::string& path) { return places.sound(path); });
  }
};

// Reports a value that stands twice. seen: where each stands first; what: the value, for
// people.
void check_unique(Checking& checking, std::map<std::string, Position>& seen, const std::string& value,
                  const std::string& path, Position at, const std::string& what,
                  const std::string& help = "choose another");

// "line 12"; "another", of what stands in no file.
[[nodiscard]] std::string holder_text(Position at);

// Defaults that follow from other keys.
void complete_defaults(Checking& checking);

// All of the checks below.
void check_config(Checking& checking);

void check_ports(Checking& checking);                     // ports_section.cc
void check_impair(Checking& checking, std::size_t port);  // impair_section.cc, of one port
void check_jobs(Checking& checking);                      // jobs_section.cc
void check_slots(Checking& checking);                     // slots_section.cc
void check_profile(Checking& checking);                   // dataplane_section.cc
void check_fleet(Checking& checking);                     // fleet_section.cc

// Slot memory of each data core in lines of 64 bytes; the shared slots are part of it.
[[nodiscard]] std::uint64_t slot_lines_per_core(const DataplaneSection& dataplane) noexcept;
// What those leave to pools, ledgers and sessions; at least 0 in a configuration without errors.
[[nodiscard]] std::uint64_t own_lines_per_core(const DataplaneSection& dataplane) noexcept;
// The same lines lie on every core: of all of them together.
[[nodiscard]] std::uint64_t bytes_of(const Config& config, std::uint64_t lines_per_core);
// "dataplane.slots is 64MiB", and what of them is for pools, ledgers and sessions.
[[nodiscard]] std::string slots_text(const Config& config);
[[nodiscard]] std::uint32_t shared_entries_per_core(const DataplaneSection& dataplane) noexcept;
// Memory of the embedded server on each data core in lines, wherever there are shared slots.
[[nodiscard]] std::uint64_t server_lines_per_core(const DataplaneSection& dataplane) noexcept;
// Some job is summed there. The server is the default, so also while what a job says is not clear.
[[nodiscard]] bool has_embedded_server(const Config& config) noexcept;

// Of a program that the profile has no room for. to_fit: what helps.
void complain_of_fit(Checking& checking, const std::string& program, const pipeline::FitReport& report,
                     const char* to_fit);

// box.mac, or the one made of the instance name: 02 and 40 bits of its hash.
[[nodiscard]] Mac box_mac(const Config& config);
// The network interfaces that a port takes frames from, gives frames to, or makes. Two ports on one would each get
// a part of its frames, or both get all.
[[nodiscard]] std::set<std::string> interfaces_of(const device::PortDevice& device);
// Where an argument stands inside the text of the device at `path`; of the device when it is not there.
[[nodiscard]] Position position_of(const Checking& checking, const std::string& path,
                                   const device::DeviceArgument* argument);
[[nodiscard]] members::MembershipOptions member_options(const Config& config);

// Why a box does not serve a job that shares slots.
inline constexpr const char* kNoSharedSlots = "the box has no shared slots";
[[nodiscard]] std::string larger_than_shared(const NativeConfig& job, const SharedSection& shared);

// jobs[2].window
[[nodiscard]] std::string path_of(const char* list, std::size_t index, const char* key);

}  // namespace tally::config
