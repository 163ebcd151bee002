#pragma once
// Homes of this box's jobs over several boxes, as the fleet has them: the box stands for the seats of its jobs, and
// every job follows who has its seat. Without the store nothing moves: a home stays one. Owner: the control thread.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
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

  // What it is given outlives it.
  FleetHomes(fleet::Member& member, Jobs jobs, SetHome set_home, LogSink log);

  // Before each tick of the member.
  void turn(TimeNs now);

 private:
  void give_back(const std::vector<SharedJob>& jobs, TimeNs now);
  void follow(const SharedJob& job);
  void complain_once(const std::string& job, const std::string& text);

  fleet::Member& member_;
  Jobs jobs_;
  SetHome set_home_;
  LogSink log_;
  std::set<std::string> gone_{};                    // were here; what of them is this box's is withdrawn
  std::set<std::string> here_{};                    // in the last turn
  std::map<std::string, std::string> complaint_{};  // of each job, the last one
};

}  // namespace tally::daemon
