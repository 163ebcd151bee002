#pragma once
// The configuration of tallyd as plain data. The initialisers are the defaults: the reference, --dump-config
// and the checks read them here. Ranges and meaning: the *_section.cc.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/cidr.h"
#include "device/port_device.h"
#include "members/job_config.h"
#include "tally/discipline.h"
#include "tally/net.h"
#include "tally/time.h"
#include "tally/wire.h"

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
  enum class Idle : std::uint8_t { kPoll, kAdaptive };
  enum class Execution : std::uint8_t { kFused, kStaged };
  enum class Hugepages : std::uint8_t { kAuto, kOn, kOff };

  std::vector<std::uint16_t> cores{1};  // CPU numbers, one data core each; distinct
  Idle idle = Idle::kAdaptive;
  std::string profile = "commodity";  // a name of kProfiles
  bool strict = false;
  Execution execution = Execution::kFused;
  std::uint64_t memory = 512 * kMiB;  // bytes, whole MiB
  std::uint64_t slots = 64 * kMiB;    // bytes of `memory`, all data cores together
  SharedSection shared{};
  Hugepages hugepages = Hugepages::kAuto;
  std::vector<std::string> eal{};
  bool operator==(const DataplaneSection&) const = default;
};

struct BoxSection {
  enum class Mode : std::uint8_t { kInline, kOneArm };

  std::optional<Cidr4> ipv4{};
  std::optional<Cidr6> ipv6{};
  std::optional<Mac> mac{};  // empty: made of the instance name
  Mode mode = Mode::kInline;
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
  enum class Checksum : std::uint8_t { kPort, kSoftware };

  std::string name{};
  device::PortDevice device{};
  std::uint16_t mtu = 1500;
  std::uint16_t queues = 1;
  Checksum checksum = Checksum::kSoftware;
  ImpairSection impair{};
  bool operator==(const PortSection&) const = default;
};

struct LogSection {
  enum class Level : std::uint8_t { kTrace, kDebug, kInfo, kWarning, kError };
  Level level = Level::kInfo;
  bool operator==(const LogSection&) const = default;
};

enum class Dialect : std::uint8_t { kNative, kSwitchml };

struct JobSection {
  std::string name{};
  std::string token_file{};  // absolute; empty: none
  std::string token{};       // what it holds; never printed
  std::uint16_t workers = 1;
  Discipline discipline = Discipline::kPool;
  Decay decay = Decay::kSilence;  // discipline preemptive
  std::uint16_t elements = 352;
  std::uint32_t window = 256;
  ResultsMode results = ResultsMode::kUnicast;
  std::uint8_t priority = 100;
  members::Quota quota{};
  std::optional<members::StragglerPolicy> stragglers{};  // empty: off
  ServerKind server = ServerKind::kNone;                 // its default follows from the discipline
  std::uint8_t servers = 1;                              // with kExternal: how many
  TimeNs lease = 10 * kSecond;
  Dialect dialect = Dialect::kNative;
  // Of a session, which has nothing of the rest but its name.
  std::uint32_t payload = switchml::kMaxPayload;
  std::uint32_t slots = 2048;
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  std::uint32_t run = 0;  // of its clients; another one begins the session anew
  std::vector<members::ConfiguredMember> members{};
  bool operator==(const JobSection&) const = default;
};

[[nodiscard]] inline bool is_session(const JobSection& job) noexcept {
  return job.dialect == Dialect::kSwitchml;
}

struct Config {
  std::string instance = "tally";
  DataplaneSection dataplane{};
  BoxSection box{};
  std::vector<PortSection> ports{};
  LogSection log{};
  std::vector<JobSection> jobs{};
  bool operator==(const Config&) const = default;
};

}  // namespace tally::config
