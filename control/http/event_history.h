#pragma once
// The last events, for those who begin to follow or come back, each as the event stream sends it. Pure.
//
// Who comes back names the last event that it has seen. Numbers begin anew with each life of the daemon, so the name
// of an event also says which life it is of: one of another life is known to be that.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tally::http {

// A piece of an event stream, shared by all who are sent it.
using Frame = std::shared_ptr<const std::string>;

// "event: KIND\ndata: DATA\n\n", with an id in front if there is one. data: one line.
[[nodiscard]] std::string frame_text(std::string_view kind, std::string_view data, std::string_view id = {});
// In place of `missed` events that are not remembered.
[[nodiscard]] std::string gap_text(std::uint64_t missed);

class EventHistory {
 public:
  static constexpr std::size_t kRemembered = 200;

  // life: of letters, digits and what else an id may have but '-'.
  explicit EventHistory(std::string life, std::size_t most = kRemembered)
      : life_(std::move(life)), most_(most) {}

  // number: greater than all before it. text: of api::event_text(). What those who follow are to be sent: a gap in
  // front where numbers are missing.
  std::vector<Frame> add(std::uint64_t number, std::string_view text);
  // What is sent to one who begins: all that is remembered, or what follows the event of this id, with a gap in
  // front where that is forgotten.
  [[nodiscard]] std::vector<Frame> since(std::optional<std::string_view> last_id) const;

 private:
  struct Event {
    std::uint64_t number;
    Frame frame;
  };
  // Of an id of this life.
  [[nodiscard]] std::optional<std::uint64_t> number_of(std::string_view id) const;

  std::string life_;
  std::size_t most_;
  std::deque<Event> events_{};
  std::uint64_t newest_ = 0;  // 0: there was none
};

}  // namespace tally::http
