#pragma once
// One request in, one answer out. Reading methods are answered from a snapshot; what changes the box goes
// through an interface, so that all of this runs without one. Pure: no socket, thread or clock of its own.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "api/long_answer.h"
#include "api/methods.h"
#include "api/request.h"
#include "api/snapshot.h"
#include "api/trace.h"
#include "config/config.h"
#include "config/diagnostic.h"
#include "config/reload_plan.h"
#include "doctor/doctor.h"
#include "tally/error.h"

namespace tally::api {

// Changes with every method, parameter or member of an answer that is taken away or means something else;
// what is added changes nothing.
inline constexpr int kApiVersion = 1;

// What became of a reload, sentences for people.
struct ReloadReport {
  bool refused = false;               // the file has errors: nothing was changed
  config::Diagnostics diagnostics{};  // errors if refused; else warnings
  std::vector<std::string> changed{};
  std::vector<std::string> failed{};   // what could not be done now; a later reload tries again
  std::vector<std::string> restart{};  // keys that differ and take a restart
};

struct DiffReport {
  config::Diagnostics diagnostics{};  // errors: it would be refused, and nothing is compared
  std::vector<config::Difference> differences{};
};

// What came of a change of one job.
struct JobChange {
  std::vector<std::string> notes{};  // sentences for people
  config::Diagnostics warnings{};
};
using ChangeDone = std::function<void(tl::expected<JobChange, Failure>)>;
// Change nothing unless the revision is this one; empty: whatever it is.
using IfRevision = std::optional<std::uint64_t>;
// Why not, if the revision is another.
[[nodiscard]] std::optional<Failure> objection_to(IfRevision wanted, std::uint64_t is);

// The box, for whoever answers. Owner: the control thread; what has no `done` is done when the call returns.
class Box {
 public:
  Box() = default;
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  virtual ~Box() = default;

  // Of now, or a few milliseconds ago; never from before the last change made through this interface.
  [[nodiscard]] virtual std::shared_ptr<const Snapshot> snapshot() = 0;
  // Grows with each change; of another life of the daemon it is another.
  [[nodiscard]] virtual std::uint64_t revision() const = 0;
  virtual ReloadReport reload() = 0;
  // What reload() would change; refused as that would be.
  virtual DiffReport diff() = 0;
  // The daemon ends when the answer to this has left, and begins anew; refused if its file has errors.
  virtual ReloadReport restart() = 0;
  // Jobs of job.add. What is kept on disk is done when it is there: `done` is called once, now or later; until
  // then nothing is changed. if_revision is compared when its turn comes.
  virtual void add_job(const Json& job, IfRevision if_revision, ChangeDone done) = 0;
  // Also of a job of the file.
  virtual void set_job(const std::string& name, const Json& keys, IfRevision if_revision,
                       ChangeDone done) = 0;
  virtual void remove_job(const std::string& name, bool abort, IfRevision if_revision, ChangeDone done) = 0;
  virtual Result<void> abort(const std::string& job, const std::string& reason) = 0;
  virtual Result<void> replan(const std::string& job) = 0;
  // What a link, a box or a server of the cluster has from now on, until its file is read again: "link rack1 to spine2",
  // "box rack3"; empty: what its file says. Fails where nothing plans, or of none that is there.
  virtual Result<void> set_plan_rate(const std::string& resource, std::optional<double> gbps);
  // The machine, as this process finds it now.
  [[nodiscard]] virtual std::vector<doctor::Finding> examine() = 0;
  // wish: within the ranges of the method's table. Fails where a name is unknown, or one runs already.
  virtual Result<void> start_trace(const TraceWish& wish) = 0;
  [[nodiscard]] virtual TraceBatch read_trace() = 0;
  virtual void stop_trace() = 0;
  [[nodiscard]] virtual TraceStatus trace() = 0;
  virtual void set_log_level(config::LogSection::Level level) = 0;
  // Before each change that is asked for: a line for people, fit for a log.
  virtual void note(const std::string& text) = 0;
};

struct Caller {
  bool may_change = false;
  std::string name{};        // "uid 1000, process 4711 (tallyctl)", of one who may
  std::string whom_to_be{};  // "root, user tally or a member of group ops", who may
};

struct Reply {
  std::string text{};                // a line with its end; empty: to a notification
  std::optional<LongAnswer> rest{};  // set: `text` is the beginning of a line, this and kEndOfRest follow
  bool follow = false;               // event_line() and lost_line() are for this client too, from now on
};
inline constexpr std::string_view kEndOfRest = "}\n";

// Takes the answer to a line; called once.
using TakeReply = std::function<void(Reply)>;
// At once, or, of what goes to disk first, later. version: tallyd's. box outlives that.
void answer(std::string_view line, const Caller& caller, Box& box, std::string_view version,
            const TakeReply& take);
// Of a box that does everything at once.
[[nodiscard]] Reply answer(std::string_view line, const Caller& caller, Box& box, std::string_view version);

}  // namespace tally::api
