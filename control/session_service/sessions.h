#pragma once
// Sessions at the box, as tallyd tells of them, and when one is over: its clients say no farewell, so what counts
// is whether their connections are open and whether their packets come. Pure.

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "session_service/group.h"
#include "session_service/requests.h"

namespace tally::session_service {

// One session of job.add, of job.show.
struct BoxSession {
  std::string name{};
  std::string phase{};           // "declared", "forming", "running", "ended"; not "gone"
  std::string reason{};          // why it does not run
  std::vector<Claim> members{};  // by rank
  std::uint32_t payload = 0;
  std::uint32_t slots = 0;
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  std::uint64_t packets = 0;         // of its members, however they ended
  std::optional<TimeNs> seen_ago{};  // the last one; empty: none yet
};
// Empty: it is no session of job.add, or gone.
[[nodiscard]] std::optional<BoxSession> session_of(const Json& shown);

// All of the box that this service cares for.
struct BoxReport {
  BoxAddresses box{};
  bool ending = false;  // it is shutting down: what it says of sessions is no decision of anybody's
  bool anew = false;    // over another connection than the last report: it may be another life of tallyd
  std::vector<BoxSession> sessions{};
};
// config.show's YAML. Empty: it is not understood.
[[nodiscard]] std::optional<BoxAddresses> addresses_of(const std::string& yaml);

// For so long connections may be away, and packets missing, until a session is over.
inline constexpr TimeNs kFarewell = 5 * kSecond;

// Whose packet came so short a time ago sends still: a little more than from one look at the box to the next.
inline constexpr TimeNs kSending = 2 * kSecond;

class Session {
 public:
  // Of a group, all of whose ranks are admitted, which runs now. job: as it was added.
  Session(Group group, Json job, TimeNs now);
  // That a former life of the service left behind. Its clients are at work for all we know.
  Session(const BoxSession& found, const Settings& settings, TimeNs now);

  [[nodiscard]] const Json& job() const noexcept { return job_; }
  [[nodiscard]] const std::vector<Claim>& members() const noexcept { return members_; }
  [[nodiscard]] bool left_behind() const noexcept { return !group_; }
  [[nodiscard]] Group* group() noexcept { return group_ ? &*group_ : nullptr; }
  [[nodiscard]] std::size_t connections() const noexcept { return open_.size(); }
  [[nodiscard]] bool has(ConnectionId connection) const { return open_.contains(connection); }

  // What the box says of it now.
  void seen(const BoxSession& at_box, TimeNs now);
  // It is declared again, in another life of tallyd.
  void begins_again() noexcept { packets_ = 0; }
  // The connection is closed, or belongs to another group.
  void leave(ConnectionId connection, TimeNs now);

  [[nodiscard]] TimeNs looked_at() const noexcept { return looked_at_; }  // when the box told of it last
  // Packets of its clients came until then, and it was not long ago.
  [[nodiscard]] bool sends(TimeNs now) const noexcept;
  // Nobody else may have its place.
  [[nodiscard]] bool at_work(TimeNs now) const noexcept;
  // Why it is over. What the box has not been asked about is no reason.
  [[nodiscard]] std::optional<std::string> over(TimeNs now, TimeNs idle) const;

 private:
  std::optional<Group> group_{};
  Json job_;
  std::vector<Claim> members_;
  std::set<ConnectionId> open_{};
  TimeNs closed_ = 0;   // since when none is open
  TimeNs packet_at_;    // the last one, or when it began
  TimeNs sent_at_ = 0;  // the last one; 0: none was seen
  TimeNs looked_at_;
  std::uint64_t packets_ = 0;
};

}  // namespace tally::session_service
