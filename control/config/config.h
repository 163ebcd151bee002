#pragma once
// The configuration of tallyd as plain data. The initialisers are the defaults: the reference, --dump-config
// and the checks read them here. Ranges and meaning: the *_section.cc.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "config/cidr.h"
#include "device/port_device.h"
#include "members/job_config.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally::config {

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// Entries for the jobs that share slots; they lie in `slots`, the server beside it.
struct SharedSection {
  std::uint32_t slots = 0;           // on all data cores together; 0: none
  std::uint16_t elements = 352;      // of each
  std::uint64_t server = 16 * kMiB;  // bytes of `memory`, all data cores together; taken if there are slots
  bool operator==(const SharedSection&) const = default;
};

struct DataplaneSection {
  std::vector<std::uint16_t> cores{1};  // CPU numbers, one data core each; distinct
  bool poll = false;                    // idle: poll; else adaptive
  std::string profile = "commodity";    // a name of kProfiles
  bool strict = false;
  bool staged = false;                // execution: staged; else fused
  std::uint64_t memory = 512 * kMiB;  // bytes, whole MiB
  std::uint64_t slots = 64 * kMiB;    // bytes of `memory`, all data cores together
  SharedSection shared{};
  std::optional<bool> hugepages{};  // empty: auto
  std::vector<std::string> eal{};
  bool operator==(const DataplaneSection&) const = default;
};

struct BoxSection {
  std::optional<Cidr4> ipv4{};
  std::optional<Cidr6> ipv6{};
  std::optional<Mac> mac{};  // empty: made of the instance name
  bool one_arm = false;      // mode: one-arm; else inline
  bool operator==(const BoxSection&) const = default;
};

// For one direction only. Empty: what ImpairSection says for both.
struct ImpairWaySection {
  std::optional<std::uint32_t> loss_ppm{};
  std::optional<std::uint32_t> burst{};
  std::optional<std::uint32_t> duplicate_ppm{};
  std::optional<std::uint32_t> reorder_ppm{};
  std::optional<std::uint32_t> corrupt_ppm{};
  std::optional<TimeNs> delay{};
  std::optional<TimeNs> jitter{};
  std::optional<std::uint32_t> queue{};
  bool operator==(const ImpairWaySection&) const = default;
};

// Shares are frames of a million. What holds for each direction in the end: impairment_of().
struct ImpairSection {
  std::uint32_t loss_ppm = 0;
  std::uint32_t burst = 1;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
  TimeNs delay = 0;
  TimeNs jitter = 0;
  std::uint32_t queue = 1024;
  std::uint64_t seed = 1;
  ImpairWaySection in{};
  ImpairWaySection out{};
  bool operator==(const ImpairSection&) const = default;
};

struct PortSection {
  std::string name{};
  device::PortDevice device{};
  std::uint16_t mtu = 1500;
  std::uint16_t queues = 1;
  bool trusted = false;  // checksum: port; else software
  ImpairSection impair{};
  bool operator==(const PortSection&) const = default;
};

struct LogSection {
  enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError };
  Level level = Level::kInfo;
  bool operator==(const LogSection&) const = default;
};

// Where HTTP is served.
struct HttpAddress {
  std::string path{};      // of a Unix socket, as ControlSection::socket; empty: TCP
  Ipv6 address{};          // IPv4 as ::ffff:a.b.c.d
  std::uint16_t port = 0;  // not 0, of TCP
  bool operator==(const HttpAddress&) const = default;
};

// The socket of the control interface, and HTTP beside it.
struct ControlSection {
  enum class Access : std::uint8_t { kOwner, kGroup, kEverybody };
  std::string socket = "auto";         // or none, or an absolute path of at most kMaxSocketPath bytes
  Access access = Access::kGroup;      // who may open it: the daemon's user, also its group, everybody
  std::string state = "auto";          // or none, or an absolute path: the folder of the jobs made here
  std::optional<std::string> group{};  // the socket's; its members may change things; empty: the daemon's own
  std::string http = "none";           // or as parse_http_address() takes it
  bool operator==(const ControlSection&) const = default;
};

inline constexpr std::size_t kMaxSocketPath = 107;  // sun_path, with its end

// The fleet that the box is in; without endpoints it is in none.
struct FleetSection {
  std::vector<std::string> endpoints{};  // of etcd: http://10.0.0.1:2379, https://[fd00::1]:2379
  std::string prefix = "/tally";         // of the fleet's keys
  std::optional<std::string> id{};       // empty: the instance name
  std::optional<std::string> user{};
  std::optional<std::string> password_file{};  // this and the next three: absolute paths
  std::optional<std::string> ca{};
  std::optional<std::string> cert{};
  std::optional<std::string> key{};
  bool operator==(const FleetSection&) const = default;
};

// Who plans jobs over several boxes.
struct PlannerSection {
  std::optional<std::string> cluster{};  // an absolute path; empty: all boxes are alike
  bool operator==(const PlannerSection&) const = default;
};

// A job is what membership takes, of one dialect or another.
using members::CommonConfig;
using members::JobConfig;
using members::NativeConfig;
using members::SessionConfig;

struct Config {
  std::string instance = "tally";
  DataplaneSection dataplane{};
  BoxSection box{};
  std::vector<PortSection> ports{};
  ControlSection control{};
  FleetSection fleet{};
  PlannerSection planner{};
  LogSection log{};
  std::vector<JobConfig> jobs{};
  bool operator==(const Config&) const = default;
};

// The jobs of one dialect, each with its place in `jobs:`. config: const or not.
template <class Dialect, class AnyConfig>
auto jobs_of(AnyConfig& config) {
  std::vector<std::pair<std::size_t, decltype(std::get_if<Dialect>(&config.jobs[0]))>> all;
  for (std::size_t i = 0; i < config.jobs.size(); ++i) {
    if (auto* const job = std::get_if<Dialect>(&config.jobs[i]); job != nullptr) all.emplace_back(i, job);
  }
  return all;
}

}  // namespace tally::config
