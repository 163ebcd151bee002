#pragma once
// libmicrohttpd's requests and responses as the shell takes them. Owner: the HTTP thread.

#include <microhttpd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "http/answers.h"

namespace tally::http {

// A text that is being sent, counted among those that are kept as long as anybody reads it.
struct Kept {
  // sum: outlives it.
  Kept(std::string all, std::uint64_t& sum) : text(std::move(all)), bytes(sum) { bytes += text.size(); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  ~Kept() { bytes -= text.size(); }

  std::string text;
  std::uint64_t& bytes;
};

struct DestroyResponse {
  void operator()(MHD_Response* response) const noexcept { MHD_destroy_response(response); }
};
// Lives on while it is being sent.
using ResponsePtr = std::unique_ptr<MHD_Response, DestroyResponse>;

// Those throw std::bad_alloc.

void add_header(const ResponsePtr& response, const char* name, std::string_view value);
// With what every answer says: that it is fresh each time, and what a browser may do with it. made: may be null.
[[nodiscard]] ResponsePtr with_headers(MHD_Response* made, std::string_view type);
// kept: counts its bytes, and outlives it.
[[nodiscard]] ResponsePtr response_of(std::string text, std::string_view type, std::uint64_t& kept);

// An answer and what its status asks for: when to come back, what is allowed, that no more is read.
struct Ready {
  unsigned status = 0;
  ResponsePtr response{};
};
[[nodiscard]] Ready ready_of(Answer answer, std::uint64_t& kept);

// Says that there are too many, without waiting for anything, and ends the connection.
void send_busy(int connection) noexcept;

// The IP address that the connection came to; empty: a Unix socket.
[[nodiscard]] std::string local_address(int connection);

struct RequestHeader {
  std::string_view name;
  std::optional<std::string_view> value{};  // the last one
  int times = 0;
};
[[nodiscard]] RequestHeader header_of(MHD_Connection* connection, std::string_view name);

}  // namespace tally::http
