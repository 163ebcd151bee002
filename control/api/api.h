#pragma once
// One request in, one answer out. Reading methods are answered from a snapshot; what changes the box goes
// through an interface, so that all of this runs without one. Pure: no socket, thread or clock of its own.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/long_answer.h"
#include "api/methods.h"
#include "api/request.h"
#include "api/snapshot.h"
#include "api/trace.h"
#include "config/config.h"
#include "config/diagnostic.h"
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

// The box, for whoever answers. Owner: the control thread; everything is done when a call returns.
class Box {
 public:
  Box() = default;
  Box(const Box&) = delete;
  Box& operator=(const Box&) = delete;
  virtual ~Box() = default;

  // Of now, or a few milliseconds ago; never from before the last change made through this interface.
  [[nodiscard]] virtual std::shared_ptr<const Snapshot> snapshot() = 0;
  virtual ReloadReport reload() = 0;
  // window: a power of two in the range of the key.
  virtual Result<void> set_window(const std::string& job, std::uint32_t window) = 0;
  virtual Result<void> abort(const std::string& job, const std::string& reason) = 0;
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

// The answer to a line. version: tallyd's.
[[nodiscard]] Reply answer(std::string_view line, const Caller& caller, Box& box, std::string_view version);

}  // namespace tally::api
