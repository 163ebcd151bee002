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
#include "tally/error.h"
#include "tally/net.h"
#include "tally/time.h"

namespace tally::daemon {

// A job over several boxes, as it is here now.
struct SharedJob {
  std::string name{};
  std::uint16_t workers = 0;
  std::uint8_t servers = 0;
  members::BoxesConfig boxes{};
};

class FleetHomes {
 public:
  // All of the box; is called in every turn.
  using Jobs = std::function<std::vector<SharedJob>()>;
  // The home of one of them is at this address, which is one of its boxes'.
  using SetHome = std::function<Result<void>(const std::string& job, const Ipv6& home)>;
  // A box has begun, or is in the fleet again: plans that did without it may try it.
  using BoxSeen = std::function<void(const Ipv6& address)>;

  // What it is given outlives it.
  FleetHomes(fleet::Member& member, Jobs jobs, SetHome set_home, BoxSeen box_seen, LogSink log);

  // Before each tick of the member.
  void turn(TimeNs now);

 private:
  // So long a box has time to find out who is the home of its jobs: one that thinks it is the home itself takes nobody.
  static constexpr TimeNs kSettled = kSecond;

  void give_back(const std::vector<SharedJob>& jobs, TimeNs now);
  void follow(const SharedJob& job);
  void look_at_boxes(TimeNs now);
  void complain_once(const std::string& job, const std::string& text);

  fleet::Member& member_;
  Jobs jobs_;
  SetHome set_home_;
  BoxSeen box_seen_;
  LogSink log_;
  struct SeenLife {
    fleet::Revision created = 0;
    TimeNs since = 0;
    bool told = false;
  };
  std::map<std::string, SeenLife> boxes_{};         // that are there
  std::map<std::string, std::string> complaint_{};  // of each job, the last one
};

}  // namespace tally::daemon
