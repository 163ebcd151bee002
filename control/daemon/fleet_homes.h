#pragma once
// Homes of this box's jobs over several boxes, as the fleet has them: the box stands for the seats of its jobs, and
// every job follows who has its seat. Without the store nothing moves: a home stays one. Owner: the control thread.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/log.h"
#include "fleet/member.h"
#include "fleet/seats.h"
#include "members/job_config.h"
#include "members/membership_status.h"
#include "tally/error.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally::daemon {

// A job over several boxes, as it is here now.
struct SharedJob {
  std::string name{};
  std::uint16_t workers = 0;
  std::uint8_t servers = 0;
  std::uint16_t token_check = 0;
  members::BoxesConfig boxes{};
  members::HomeNeeds needs{};  // this, what is below and the token's check as members::BoxesJob
  std::string no_room{};
};

class FleetHomes {
 public:
  // All of the box; is called in every turn.
  using Jobs = std::function<std::vector<SharedJob>()>;
  // The home of one of them is at this address, which is one of its boxes'.
  using SetHome = std::function<Result<void>(const std::string& job, const Ipv6& home)>;
  // A box has begun, or is in the fleet again: plans that did without it may try it.
  using BoxSeen = std::function<void(const Ipv6& address)>;

  // Why this box could not be the home of a job of that name whose generation needs so much; empty: it could.
  using Objection = std::function<std::string(const std::string& job, const members::HomeNeeds& needs)>;
  // What the fleet says of the home of one of them, in every turn.
  using HearOfHome = std::function<void(const std::string& job, const members::HomeNews& news)>;
  struct Face {
    Jobs jobs;
    SetHome set_home;
    BoxSeen box_seen;
    Objection objection;
    HearOfHome hear_of_home;
  };

  // What it is given outlives it.
  FleetHomes(fleet::Member& member, Face face, LogSink log);

  // Before each tick of the member.
  void turn(TimeNs now);
  // Jobs without a home that this box does not take either, with the reasons.
  [[nodiscard]] const std::map<std::string, std::string>& left() const noexcept { return left_; }

 private:
  // So long a box has time to find out who is the home of its jobs: one that thinks it is the home itself takes nobody.
  static constexpr TimeNs kSettled = kSecond;

  void withdraw_gone(const std::vector<SharedJob>& jobs, TimeNs now);
  [[nodiscard]] bool has_no_home(const std::string& job) const;
  void look_at_seat(const SharedJob& job, fleet::OwnJob& own, TimeNs now);
  // True: it has another home by now.
  bool follow(const SharedJob& job);
  void tell_of_home(const SharedJob& job, TimeNs now);
  void look_at_boxes(TimeNs now);
  void complain_once(const std::string& job, const std::string& text);

  fleet::Member& member_;
  Face face_;
  LogSink log_;
  struct SeenLife {
    fleet::Revision created = 0;
    TimeNs since = 0;
    bool told = false;
  };
  std::map<std::string, SeenLife> boxes_{};   // that are there
  std::map<std::string, TimeNs> homeless_{};  // jobs that have no home in the fleet, since when
  std::map<std::string, std::string> left_{};
  std::map<std::string, std::string> complaint_{};  // of each job, the last one
};

}  // namespace tally::daemon
