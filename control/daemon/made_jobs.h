#pragma once
// The jobs of job.add, beside those of the file, and job.set of both. What is kept is on the disk before it is
// done and told: changes are carried out one after the other, each when the one before it has come to its
// end. Pure: the disk is a function. Owner: the control thread.

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "api/api.h"
#include "daemon/log.h"
#include "daemon/reload.h"
#include "daemon/state_file.h"
#include "members/membership.h"
#include "tally/error.h"
#include "tally/time.h"

namespace tally::daemon {

// Where the jobs are kept, as found at the start.
struct Keeping {
  std::string path{};     // of the file; empty: nowhere
  std::string why_not{};  // nowhere, for people; empty: path is set
  std::string text{};     // of the file; empty: there is none
  State state{};          // what it says
  bool unusable =
      false;  // there is a file that can be neither read nor set aside: it must not be overwritten
};
// control.state and what is there; a file that is not to be used is set aside, which is a line of the log. Fails
// on a folder that was written and is none.
[[nodiscard]] Result<Keeping> find_state(const config::Config& config, const LogSink& log);

class MadeJobs {
 public:
  // What it refers to outlives it.
  struct Parts {
    Reload& reload;
    members::MembershipEngine& engine;
    LogSink log;
    std::string directory;          // relative token files are relative to it
    std::function<TimeNs()> now;    // as the engine's
    std::function<bool()> ending;   // nothing is begun any more
    std::function<void()> changed;  // something is to be published and sent
    // Puts a text on the disk and says when it is there. Empty: nothing is kept.
    std::function<void(std::string, std::function<void(Result<void>)>)> save;
  };
  explicit MadeJobs(Parts parts) : parts_(std::move(parts)) {}

  // Declares what was kept. revision: of this life's begin.
  void begin(const Keeping& keeping, std::uint64_t revision);

  // As api::Box says.
  void add(api::Json job, api::IfRevision if_revision, api::ChangeDone done);
  void set(std::string name, api::Json keys, api::IfRevision if_revision, api::ChangeDone done);
  void remove(std::string name, bool abort, api::IfRevision if_revision, api::ChangeDone done);

  // A write is under way.
  [[nodiscard]] bool busy() const noexcept { return busy_; }
  // Now, or when that is over.
  void after(std::function<void()> then);
  // The file was taken again: perhaps those can be declared that could not.
  void retry();

  // Something was changed, here or elsewhere.
  void count_change() noexcept { ++revision_; }
  [[nodiscard]] std::uint64_t revision() const noexcept { return revision_; }
  [[nodiscard]] bool keeps() const noexcept { return static_cast<bool>(parts_.save) && !unusable_; }
  // A sentence for each that is kept and not declared.
  [[nodiscard]] std::vector<std::string> dormant() const;

 private:
  struct Made {
    std::string name{};
    api::Json job{};
    std::string why_not{};  // it is not declared; empty: it is
  };
  using Outcome = tl::expected<api::JobChange, api::Failure>;

  [[nodiscard]] std::vector<Made>::iterator find(const std::string& name);
  [[nodiscard]] static std::string dormant_text(const Made& made);
  [[nodiscard]] std::optional<api::Failure> objection(api::IfRevision if_revision) const;
  [[nodiscard]] api::Failure unknown(const std::string& name) const;
  [[nodiscard]] bool peopled(const std::string& name) const;
  void declare(Made& made);
  void do_add(api::Json job, const api::ChangeDone& done);
  void do_set(const std::string& name, const api::Json& keys, const api::ChangeDone& done);
  void do_remove(const std::string& name, bool abort, const api::ChangeDone& done);
  // Keeps `next`, then does it; if that fails, keeps what was before.
  void keep(const std::vector<Made>& next, std::function<Outcome()> apply, const api::ChangeDone& done);
  void write(const std::vector<Made>& jobs, std::function<void(Result<void>)> done);
  void finish(const api::ChangeDone& done, Outcome outcome);

  Parts parts_;
  std::vector<Made> made_{};
  std::deque<std::function<void()>> waiting_{};
  std::uint64_t revision_ = 0;
  std::string instance_{};
  std::string why_not_kept_{};
  bool unusable_ = false;
  bool busy_ = false;
};

}  // namespace tally::daemon
