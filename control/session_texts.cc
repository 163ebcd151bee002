#include "session_texts.h"

#include <array>
#include <charconv>

#include "cidr.h"
#include "column_table.h"
#include "texts.h"

namespace tally {
namespace {

std::string hex(std::uint32_t value) {
  std::array<char, 8> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return "0x" + std::string(digits.data(), end.ptr);
}

const char* name_of(TsiRule rule) noexcept { return rule == TsiRule::kPacket ? "packet" : "opaque"; }

std::string running_text(const JobStatus& is) {
  const SessionStatus& s = *is.session;
  return "running, a session of SwitchML's clients: epoch " + hex(raw(is.epoch)) + ", " +
         std::to_string(is.world) + (is.world == 1 ? " member, " : " members, ") + std::to_string(s.slots) +
         " slots of " + std::to_string(s.payload) + " bytes (" + kib_text(is.slots.count) +
         " of slot memory per core), tsi " + name_of(s.tsi) + ", all on core " + std::to_string(s.home) +
         ", clients send to MAC " + to_text(s.box_mac);
}

std::string last_seen_text(TimeNs last_seen, TimeNs now) {
  if (last_seen == 0) return "never";
  return seconds_text(now > last_seen ? now - last_seen : 0) + " ago";
}

}  // namespace

std::optional<SessionNews> session_news(const JobStatus& was, const JobStatus& is) {
  const bool runs = is.phase == JobPhase::kRunning;
  if (runs && (was.phase != JobPhase::kRunning || was.epoch != is.epoch))
    return SessionNews{LogLevel::kInfo, running_text(is)};
  // Once for each thing it lacks: with every job that comes and goes the numbers change.
  const SessionLacks lacked = was.session ? was.session->lacks : SessionLacks::kNothing;
  if (is.session->lacks != lacked && !is.reason.empty()) return SessionNews{LogLevel::kWarning, is.reason};
  return std::nullopt;
}

SessionNews session_gone() {
  return {LogLevel::kInfo,
          "ended, and its clients are not told, as SwitchML has no word for it: what they "
          "send now is dropped"};
}

std::string sessions_text(const CountersSnapshot& all) {
  ColumnTable table(
      {"session", "tsi", "MAC", "address", "rank", "UDP port", "payload", "slots", "core", "last seen"}, 4);
  bool any = false;
  for (const JobCounts& job : all.jobs) {
    if (!job.status.session) continue;
    any = true;
    const SessionStatus& s = *job.status.session;
    for (std::size_t r = 0; r < job.status.ranks.size(); ++r) {
      const RankStatus& rank = job.status.ranks[r];
      table.add({job.status.name, name_of(s.tsi), to_text(rank.binding.mac),
                 address_text(rank.binding.address), std::to_string(r), std::to_string(rank.binding.udp_port),
                 std::to_string(s.payload), std::to_string(s.slots), std::to_string(s.home),
                 last_seen_text(rank.last_seen, all.now)});
    }
  }
  return any ? table.text() + "\n" : "";
}

}  // namespace tally
