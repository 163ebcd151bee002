#include "session_service/requests.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "config/units.h"
#include "tally/be.h"
#include "tally/switchml.h"
#include "tally/wire.h"
#include "text/text.h"

namespace tally::session_service {
namespace {

constexpr std::uint32_t kLargestSize = 3;  // MTU_1024
constexpr std::uint64_t kMostMac = (std::uint64_t{1} << 48U) - 1;

Status invalid(std::string text) { return {Code::kInvalidArgument, std::move(text)}; }

std::uint32_t most_workers(const Settings& settings) noexcept {
  return settings.tsi == jobs::TsiRule::kOpaque ? jobs::kMaxOpaqueMembers : kMaxRanks;
}

Status objection_to_world(std::uint32_t workers, const Settings& settings) {
  if (workers == 0) return invalid("num_workers is 0: a session has at least one worker");
  const std::uint32_t most = most_workers(settings);
  if (workers > most)
    return invalid("num_workers is " + std::to_string(workers) + ", and a session of this box has at most " +
                   std::to_string(most) + (most < kMaxRanks ? " with tsi: opaque" : ""));
  return {};
}

Status objection_to_rank(std::uint32_t rank, std::uint32_t workers) {
  if (rank < workers) return {};
  return invalid("rank is " + std::to_string(rank) + ", and " + text::counted(workers, "worker") +
                 " have the ranks 0 to " + std::to_string(workers - 1));
}

bool lies_in(const Ipv4& address, const Network& network) noexcept {
  const std::uint32_t mask =
      network.prefix == 0 ? 0 : ~std::uint32_t{0} << (32U - std::uint32_t{network.prefix});
  return ((number_of(address) ^ number_of(network.address)) & mask) == 0;
}

}  // namespace

const char* name_of(Code code) noexcept {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kAborted:
      return "ABORTED";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kUnavailable:
      return "UNAVAILABLE";
  }
  return "UNKNOWN";
}

Mac mac_of(std::uint64_t number) noexcept {
  Mac mac{};
  for (std::size_t i = mac.size(); i-- > 0; number >>= 8U) mac[i] = static_cast<std::uint8_t>(number);
  return mac;
}

std::uint64_t number_of(const Mac& mac) noexcept {
  std::uint64_t number = 0;
  for (const std::uint8_t byte : mac) number = number << 8U | byte;
  return number;
}

Ipv4 ipv4_of(std::uint32_t number) noexcept {
  Ipv4 ipv4{};
  for (std::size_t i = ipv4.size(); i-- > 0; number >>= 8U) ipv4[i] = static_cast<std::uint8_t>(number);
  return ipv4;
}

std::uint32_t number_of(const Ipv4& ipv4) noexcept {
  std::uint32_t number = 0;
  for (const std::uint8_t byte : ipv4) number = number << 8U | byte;
  return number;
}

std::string to_text(const Claim& claim) {
  return "MAC " + config::to_text(claim.mac) + ", " + config::to_text(claim.ipv4);
}

config::Parsed<Network> parse_network(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto address = text::ip_address(text.substr(0, slash));
  const auto prefix = slash == std::string::npos ? std::optional<std::uint64_t>(32)
                                                 : text::whole_number(text.substr(slash + 1), 0, 32);
  if (!address || !is_mapped_ipv4(*address) || !prefix)
    return config::complain(config::shown(text) + " is no IPv4 network", "write one such as 10.0.0.0/24");
  const Ipv6& a = *address;
  const Network network{{a[12], a[13], a[14], a[15]}, static_cast<std::uint8_t>(*prefix)};
  Network whole = network;
  whole.address = {};
  // A host's address would say more than is meant.
  for (std::uint32_t bit = 0; bit < network.prefix; ++bit) {
    const auto mask = static_cast<std::uint8_t>(0x80U >> bit % 8);
    whole.address[bit / 8] =
        static_cast<std::uint8_t>(whole.address[bit / 8] | (network.address[bit / 8] & mask));
  }
  if (whole != network)
    return config::complain(
        config::shown(text) + " has bits behind its " + std::to_string(*prefix) + " of the network",
        "write " + to_text(whole));
  return network;
}

std::string to_text(const Network& network) {
  return config::to_text(network.address) + "/" + std::to_string(network.prefix);
}

Status objection_to(const Broadcast& request, const Settings& settings) {
  if (Status no = objection_to_world(request.workers, settings); !no.ok()) return no;
  if (Status no = objection_to_rank(request.rank, request.workers); !no.ok()) return no;
  if (request.root < request.workers) return {};
  return invalid("root is " + std::to_string(request.root) + ", which is no rank of " +
                 text::counted(request.workers, "worker"));
}

Status objection_to(const Barrier& request, const Settings& settings) {
  return objection_to_world(request.workers, settings);
}

Status objection_to(const UdpSession& request, const Settings& settings) {
  if (Status no = objection_to_world(request.workers, settings); !no.ok()) return no;
  if (Status no = objection_to_rank(request.rank, request.workers); !no.ok()) return no;
  if (request.packet_size > kLargestSize)
    return invalid("packet_size is " + std::to_string(request.packet_size) +
                   "; 0 to 3 stand for 128, 256, 512 and 1024 bytes of values");
  if (request.mac > kMostMac) return invalid("mac has more than 48 bits: " + text::hexadecimal(request.mac));
  const Mac mac = mac_of(request.mac);
  if (request.mac == 0 || (mac[0] & 1U) != 0)
    return invalid("mac is " + config::to_text(mac) + ", which is no network card's");
  if (const auto host = config::parse_ipv4(config::to_text(ipv4_of(request.ipv4))); !host)
    return invalid("ipv4: " + host.error().message);
  return {};
}

Status objection_to(const Claim& claim, const BoxAddresses& box, const Settings& settings) {
  if (!box.ipv4)
    return {
        Code::kFailedPrecondition,
        "the box has no IPv4 address (box.ipv4 of its configuration), and SwitchML's clients know no other"};
  if (claim.mac == box.mac)
    return invalid(config::to_text(claim.mac) + " is the box's own MAC: name the one of the client's port");
  if (claim.ipv4 == *box.ipv4)
    return invalid(config::to_text(claim.ipv4) + " is the box's own address: name the client's (worker_ip)");
  const auto holds = [&](const Network& network) { return lies_in(claim.ipv4, network); };
  if (settings.allow.empty() || std::ranges::any_of(settings.allow, holds)) return {};
  return {Code::kPermissionDenied,
          config::to_text(claim.ipv4) + " is in none of the networks that may have a session here (allow): " +
              text::listed(settings.allow, ", ", [](const Network& n) { return to_text(n); })};
}

std::uint32_t payload_of(const UdpSession& request) noexcept {
  return switchml::kMinPayload << std::min(request.packet_size, kLargestSize);
}

Json job_of(const std::string& name, const std::vector<Claim>& members, std::uint32_t payload,
            const Settings& settings) {
  Json all = Json::array();
  for (std::size_t rank = 0; rank < members.size(); ++rank)
    all.push_back({{"rank", rank},
                   {"mac", config::to_text(members[rank].mac)},
                   {"ipv4", config::to_text(members[rank].ipv4)}});
  return {{"name", name},
          {"dialect", "switchml"},
          {"payload", payload},
          {"slots", settings.slots},
          {"tsi", settings.tsi == jobs::TsiRule::kPacket ? "packet" : "opaque"},
          {"members", std::move(all)}};
}

}  // namespace tally::session_service
