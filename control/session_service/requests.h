#pragma once
// What SwitchML's clients ask of a session service, what they are answered, and the job of the box that a
// group of them becomes. Pure.

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <variant>
#include <vector>

#include "config/cidr.h"
#include "config/config.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally::session_service {

using Json = nlohmann::ordered_json;
using CallId = std::uint64_t;  // of one call, never used again
using ConnectionId =
    std::uint64_t;  // of one TCP connection, likewise; all that tells one client from another

// The codes of gRPC that are used here, by their numbers.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kUnimplemented = 12,
  kUnavailable = 14,
};
// "INVALID_ARGUMENT"
[[nodiscard]] const char* name_of(Code code) noexcept;

// A client prints both and ends; the text is all that its user learns.
struct Status {
  Code code = Code::kOk;
  std::string text{};
  [[nodiscard]] bool ok() const noexcept { return code == Code::kOk; }
};

struct Broadcast {
  std::uint64_t value = 0;  // counts of the root alone
  std::uint32_t rank = 0, workers = 0, root = 0;
};
struct Barrier {
  std::uint32_t workers = 0;
};
struct UdpSession {
  std::uint64_t session_id = 0;
  std::uint32_t rank = 0, workers = 0;
  std::uint64_t mac = 0;          // 48 bits, the first byte of the address the most significant
  std::uint32_t ipv4 = 0;         // the first byte the most significant
  std::uint32_t packet_size = 0;  // 128 << this are the bytes of values in a packet
};
struct RdmaSession {};
using Request = std::variant<Broadcast, Barrier, UdpSession, RdmaSession>;

struct Answer {
  CallId call = 0;
  Status status{};
  std::uint64_t value = 0;  // of Broadcast; the session id of UdpSession
  std::uint64_t mac = 0;    // of UdpSession, as there
  std::uint32_t ipv4 = 0;
};

// Where a client says its packets come from. Nobody proves it.
struct Claim {
  Mac mac{};
  Ipv4 ipv4{};
  bool operator==(const Claim&) const = default;
};
[[nodiscard]] std::string to_text(const Claim& claim);
[[nodiscard]] Mac mac_of(std::uint64_t number) noexcept;
[[nodiscard]] std::uint64_t number_of(const Mac& mac) noexcept;
[[nodiscard]] Ipv4 ipv4_of(std::uint32_t number) noexcept;
[[nodiscard]] std::uint32_t number_of(const Ipv4& ipv4) noexcept;

// A network of addresses that members may claim.
struct Network {
  Ipv4 address{};
  std::uint8_t prefix = 0;  // 0..32
  bool operator==(const Network&) const = default;
};
[[nodiscard]] config::Parsed<Network> parse_network(const std::string& text);
[[nodiscard]] std::string to_text(const Network& network);

struct Settings {
  struct Port {
    std::uint16_t port = 50099;
    std::string name{};  // the session is the job prefix + name of the box
    bool operator==(const Port&) const = default;
  };
  std::vector<Port> listen{};
  std::string prefix = "switchml.";
  std::vector<Network> allow{};  // of what members claim; empty: any address
  std::uint32_t slots = 2048;
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  TimeNs wait = 60 * kSecond;       // for ranks that do not come
  TimeNs idle = 10 * 60 * kSecond;  // without packets, of a session whose clients are not connected
};

struct BoxAddresses {
  Mac mac{};
  std::optional<Ipv4> ipv4{};  // none: it cannot serve these clients
};

// What is wrong with the numbers of a request by themselves; ok: nothing.
[[nodiscard]] Status objection_to(const Broadcast& request, const Settings& settings);
[[nodiscard]] Status objection_to(const Barrier& request, const Settings& settings);
[[nodiscard]] Status objection_to(const UdpSession& request, const Settings& settings);
// With who claims to be the box, or not to be of an allowed network.
[[nodiscard]] Status objection_to(const Claim& claim, const BoxAddresses& box, const Settings& settings);

// Only of a size that objection_to() lets by.
[[nodiscard]] std::uint32_t payload_of(const UdpSession& request) noexcept;

// The job as job.add takes it. members: by rank.
[[nodiscard]] Json job_of(const std::string& name, const std::vector<Claim>& members, std::uint32_t payload,
                          const Settings& settings);

}  // namespace tally::session_service
