#pragma once
// The session service of SwitchML's clients: groups that form, one on each port, and the sessions at the box that they
// become. Calls, connections, the box's words and the time come in; answers, orders to the box and lines for the log come
// out. Pure. Owner: one thread.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <utility>
#include <variant>
#include <vector>

#include "session_service/group.h"
#include "session_service/requests.h"
#include "session_service/sessions.h"

namespace tally::session_service {

// What the box is asked, one after the other: `looked`, `added` or `removed` follows each, in the same order.
struct Look {};
struct Add {
  std::string name{};
  Json job{};
};
struct Remove {
  std::string name{};
};
using Order = std::variant<Look, Add, Remove>;

struct BoxTrouble {
  enum class Kind : std::uint8_t {
    kAway,     // no answer: it may have been done, or be done later
    kUnknown,  // no such job
    kExists,
    kUnfit,         // the job has errors
    kNoRoom,        // it is larger than an empty box
    kNotPermitted,  // this service may not change the box
    kRefused,       // not at the moment, or not at all
  };
  Kind kind = Kind::kAway;
  std::string text{};
};
template <class T>
using BoxSays = tl::expected<T, BoxTrouble>;

struct Line {
  config::LogSection::Level level = config::LogSection::Level::kInfo;
  std::string text{};
};

// What is to be done, since it was asked for last.
struct Work {
  std::vector<Answer> answers{};
  std::vector<Order> orders{};
  std::vector<Line> lines{};
};

// How far the box is with the session of a group that is complete.
struct Declaration {
  enum class Step : std::uint8_t { kToRemove, kRemoving, kToAdd, kAdding, kAwaiting };
  Step step = Step::kToAdd;
  Json job{};
  TimeNs begun = 0;
  TimeNs next_try = 0;
  TimeNs added = 0;
  bool replaced = false;  // what stood in its place was removed once
  std::string trouble{};  // what the box said last
};

class Service {
 public:
  static constexpr TimeNs kBoxPatience = 10 * kSecond;  // while tallyd is away
  static constexpr TimeNs kRoomPatience = 3 * kSecond;  // for slot memory that is being freed
  static constexpr TimeNs kRetry = kSecond / 2;

  // settings: at least one port, names distinct.
  explicit Service(Settings settings);

  // port: its place in settings.listen. where: for people.
  void opened(ConnectionId connection, std::size_t port, std::string where);
  void closed(ConnectionId connection, TimeNs now);
  void asked(CallId call, ConnectionId connection, const Request& request, TimeNs now);
  void cancelled(CallId call);

  void looked(BoxSays<BoxReport> report, TimeNs now);
  void added(const std::string& name, const BoxSays<void>& done, TimeNs now);
  void removed(const std::string& name, const BoxSays<void>& done, TimeNs now);

  // At least every kTurn.
  void tick(TimeNs now);
  static constexpr TimeNs kTurn = 50 * kMillisecond;
  // Nobody waits any more; sessions at the box go on.
  void stop();

  [[nodiscard]] Work take() { return std::exchange(work_, {}); }
  // Whom the service can lose first when there are too many: the oldest that is in no group and no session.
  [[nodiscard]] std::optional<ConnectionId> dispensable() const;
  // Sessions that run, for people and tests.
  [[nodiscard]] std::size_t sessions() const noexcept;

 private:
  // A port, and its session; or a session of a port that a former life of the service had.
  struct Desk {
    std::string job{};
    std::uint16_t port = 0;  // 0: none any more
    std::optional<Group> group{};
    std::optional<TimeNs>
        complete_at{};  // the group is, and waits for the end of packets of the session before
    std::optional<Declaration> declaration{};
    std::optional<Session> session{};
    bool again = false;   // the session has to be declared again, and is not yet
    bool adding = false;  // that was ordered
    int adds_out = 0;     // orders without an answer yet; only the last one's is of what is wanted now
    bool removing = false;
  };
  struct Connection {
    std::size_t desk = 0;
    std::string where{};
    Status over{};  // what it learns with its next call; ok: nothing
  };
  struct Place {  // of a connection
    Group* group = nullptr;
    std::uint32_t rank = 0;
    bool forms = false;
  };

  [[nodiscard]] static std::string named(const std::string& job) { return "session '" + job + "'"; }
  void log(config::LogSection::Level level, std::string text);
  void answer(CallId call, Status status) {
    work_.answers.push_back({.call = call, .status = std::move(status)});
  }
  [[nodiscard]] Desk* desk_of(const std::string& job);
  [[nodiscard]] Place place_of(ConnectionId connection);
  [[nodiscard]] bool busy() const noexcept;

  void on(CallId call, ConnectionId connection, const Broadcast& request, TimeNs now);
  void on(CallId call, ConnectionId connection, const Barrier& request, TimeNs now);
  void on(CallId call, ConnectionId connection, const UdpSession& request, TimeNs now);
  void on(CallId call, ConnectionId connection, const RdmaSession& request, TimeNs now);
  // What a peer of a group asks for cannot be: nobody of the group gets a session.
  void refuse(Desk& desk, std::uint32_t rank, CallId call, const Status& status);
  // The group that forms is over.
  void dissolve(Desk& desk, const Status& status);
  void tell_all(Group& group, const Status& status);
  void admit_waiting(Desk& desk, TimeNs now);
  [[nodiscard]] Status objection_to_claim(const Desk& desk, std::uint32_t rank, TimeNs now) const;

  // service_box.cc.
  void order_add(Desk& desk, const Json& job);
  void order_remove(Desk& desk);
  void declare(Desk& desk, TimeNs now);
  void advance(Desk& desk, TimeNs now);
  void declared(Desk& desk, TimeNs now);
  void await_room(Desk& desk, const BoxSession& at_box, TimeNs now);
  void added_again(Desk& desk, const BoxSays<void>& done, TimeNs now);

  void found(const BoxSession& at_box, TimeNs now);
  void missed(Desk& desk, const BoxReport& report, TimeNs now);
  void end_session(Desk& desk, const std::string& why, bool at_box);
  void box_away(const std::string& why);

  Settings settings_;
  std::vector<Desk> desks_{};
  std::map<ConnectionId, Connection> connections_{};
  std::optional<BoxAddresses> box_{};             // while tallyd answers and goes on
  std::string away_ = "it has not answered yet";  // why it is empty
  bool told_away_ = false;
  bool knows_box_ = false;  // it was looked at once
  bool looking_ = false;
  TimeNs next_look_ = 0;
  Work work_{};
};

}  // namespace tally::session_service
