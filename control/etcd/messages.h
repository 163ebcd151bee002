#pragma once
// Requests and answers of a store as etcd 3.4's JSON gateway has them: keys and values in base64, 64-bit numbers as
// texts, what is 0 or empty left out. Pure: any bytes may come as an answer.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fleet/store.h"

namespace tally::etcd {

// What is sent by POST.
struct Call {
  std::string path{};
  std::string body{};
};
[[nodiscard]] Call call_of(const fleet::Request& request);
[[nodiscard]] Call authentication(const std::string& user, const std::string& password);
[[nodiscard]] Call watch_of(const std::string& prefix, fleet::Revision from);

// Nothing is done twice by sending it twice.
[[nodiscard]] bool is_repeatable(const fleet::Request& request) noexcept;

// An answer that is an error.
struct Refusal {
  enum class Kind : std::uint8_t {
    kStore,    // fault
    kNoToken,  // a token is needed, or a newer one
    kNoAuth,   // etcd asks nobody who he is
  };
  Kind kind = Kind::kStore;
  fleet::StoreError error{};
};
// status: of HTTP, not 200.
[[nodiscard]] Refusal read_refusal(int status, std::string_view body);
// Of status 200. Empty: it is not understood.
[[nodiscard]] std::optional<fleet::Reply> read_reply(const fleet::Request& request, std::string_view body);
[[nodiscard]] std::optional<std::string> read_token(std::string_view body);

// A line of a watch.
struct WatchLine {
  bool over = false;       // it is cancelled, and why says why
  bool compacted = false;  // because the store has forgotten
  bool no_token = false;   // as of a Refusal
  std::string why{};
  fleet::Revision last = 0;  // of the changes; 0: there are none
  std::vector<fleet::Change> changes{};
};
[[nodiscard]] std::optional<WatchLine> read_watch_line(std::string_view line);

}  // namespace tally::etcd
