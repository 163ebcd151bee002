#include "session_service/sessions.h"

#include <algorithm>
#include <utility>

#include "config/checks.h"
#include "config/yaml.h"
#include "text/text.h"

namespace tally::session_service {
namespace {

std::string text_at(const Json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_string() ? value->get<std::string>() : std::string();
}

std::uint64_t number_at(const Json& object, const char* key) {
  const auto value = object.find(key);
  return value != object.end() && value->is_number_unsigned() ? value->get<std::uint64_t>() : 0;
}

const config::YamlNode* child(const config::YamlNode& map, std::string_view key) {
  const auto entry = std::ranges::find(map.entries, key, &config::YamlEntry::key);
  return entry == map.entries.end() ? nullptr : &entry->value;
}

std::vector<Claim> members_of(const Json& ranks) {
  std::vector<Claim> members;
  for (const Json& rank : ranks) {
    const auto mac = config::parse_mac(text_at(rank, "mac"));
    const auto ipv4 = config::parse_ipv4(text_at(rank, "address"));
    members.push_back({mac.value_or(Mac{}), ipv4.value_or(Ipv4{})});
  }
  return members;
}

std::optional<TimeNs> newest_of(const Json& ranks) {
  std::optional<TimeNs> newest;
  for (const Json& rank : ranks) {
    const auto ago = rank.find("seen_ns_ago");
    if (ago == rank.end() || !ago->is_number_unsigned()) continue;
    newest = std::min(newest.value_or(kNever), ago->get<TimeNs>());
  }
  return newest;
}

}  // namespace

std::optional<BoxSession> session_of(const Json& shown) {
  if (!shown.is_object() || text_at(shown, "dialect") != "switchml" ||
      text_at(shown, "made_by") != "job.add" || text_at(shown, "phase") == "gone")
    return std::nullopt;
  const auto ranks = shown.find("ranks");
  const auto session = shown.find("session");
  if (ranks == shown.end() || !ranks->is_array() || session == shown.end() || !session->is_object())
    return std::nullopt;
  return BoxSession{
      .name = text_at(shown, "name"),
      .phase = text_at(shown, "phase"),
      .reason = text_at(shown, "reason"),
      .members = members_of(*ranks),
      .payload = static_cast<std::uint32_t>(number_at(*session, "payload")),
      .slots = static_cast<std::uint32_t>(number_at(*session, "slots")),
      .tsi = text_at(*session, "tsi") == "opaque" ? jobs::TsiRule::kOpaque : jobs::TsiRule::kPacket,
      .packets = number_at(shown, "contributions") + number_at(shown, "repeats") +
                 number_at(shown, "relays") + number_at(shown, "drops"),
      .seen_ago = newest_of(*ranks)};
}

// By hand, so that a key of a newer tallyd is no error.
std::optional<BoxAddresses> addresses_of(const std::string& yaml) {
  const config::YamlSource source("config.show", yaml);
  config::Report report(source);
  const auto root = config::parse_yaml(source, report);
  if (!root || report.has_errors()) return std::nullopt;
  config::Config config;
  const config::YamlNode* const instance = child(*root, "instance");
  const config::YamlNode* const box = child(*root, "box");
  if (instance == nullptr || box == nullptr) return std::nullopt;
  config.instance = instance->text;
  if (const config::YamlNode* mac = child(*box, "mac"); mac != nullptr && mac->text != "auto") {
    const auto read = config::parse_mac(mac->text);
    if (!read) return std::nullopt;
    config.box.mac = *read;
  }
  BoxAddresses all{.mac = config::box_mac(config)};
  if (const config::YamlNode* ipv4 = child(*box, "ipv4"); ipv4 != nullptr) {
    if (const auto read = config::parse_cidr4(ipv4->text)) all.ipv4 = read->address;
  }
  return all;
}

Session::Session(Group group, Json job, TimeNs now)
    : group_(std::move(group)),
      job_(std::move(job)),
      members_(group_->members()),
      packet_at_(now),
      looked_at_(now) {
  for (const auto& [rank, peer] : group_->peers()) open_.insert(peer.connection);
}

Session::Session(const BoxSession& found, const Settings& settings, TimeNs now)
    : members_(found.members), packet_at_(now), looked_at_(now), packets_(found.packets) {
  Settings its = settings;
  its.slots = found.slots;
  its.tsi = found.tsi;
  job_ = job_of(found.name, found.members, found.payload, its);
  if (found.seen_ago) packet_at_ = sent_at_ = now - std::min(now, *found.seen_ago);
}

void Session::seen(const BoxSession& at_box, TimeNs now) {
  if (at_box.packets > packets_) sent_at_ = now;
  packets_ = at_box.packets;
  if (at_box.seen_ago) sent_at_ = std::max(sent_at_, now - std::min(now, *at_box.seen_ago));
  packet_at_ = std::max(packet_at_, sent_at_);
  looked_at_ = now;
}

bool Session::sends(TimeNs now) const noexcept { return sent_at_ != 0 && now < sent_at_ + kSending; }

void Session::leave(ConnectionId connection, TimeNs now) {
  if (open_.erase(connection) != 0 && open_.empty()) closed_ = now;
}

bool Session::at_work(TimeNs now) const noexcept {
  // Clients of a former life may be in a long pause: nobody knows better than `idle`.
  return left_behind() || !open_.empty() || now < packet_at_ + kFarewell;
}

std::optional<std::string> Session::over(TimeNs now, TimeNs idle) const {
  if (left_behind()) {
    if (looked_at_ < packet_at_ + idle || now < packet_at_ + idle) return std::nullopt;
    return "no packet came for " + std::to_string((now - packet_at_) / kSecond) +
           " s, and nobody knows its clients";
  }
  if (!open_.empty()) return std::nullopt;
  const TimeNs last = std::max(closed_, packet_at_);
  if (looked_at_ < last + idle || now < last + idle) return std::nullopt;
  return "the connections of all its clients are closed, and no packet came for " +
         std::to_string((now - last) / kSecond) + " s";
}

}  // namespace tally::session_service
