#include "http/responses.h"

#include <netinet/in.h>
#include <strings.h>
#include <sys/socket.h>

#include <cstring>
#include <new>
#include <utility>

#include "members/texts.h"
#include "tally/net.h"

namespace tally::http {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; img-src "
    "data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace

void add_header(const ResponsePtr& response, const char* name, std::string_view value) {
  if (response && MHD_add_response_header(response.get(), name, std::string(value).c_str()) != MHD_YES)
    throw std::bad_alloc();
}

ResponsePtr with_headers(MHD_Response* made, std::string_view type) {
  ResponsePtr response(made);
  if (!response) throw std::bad_alloc();
  add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
  add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  add_header(response, "Content-Security-Policy", kPolicy);
  add_header(response, "X-Content-Type-Options", "nosniff");
  add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
  return response;
}

ResponsePtr response_of(std::string text, std::string_view type, std::uint64_t& kept) {
  auto shared = std::make_unique<Kept>(std::move(text), kept);
  MHD_Response* const made = MHD_create_response_from_buffer_with_free_callback_cls(
      shared->text.size(), shared->text.data(), [](void* all) { delete static_cast<Kept*>(all); },
      shared.get());
  if (made != nullptr) (void)shared.release();
  return with_headers(made, type);
}

Ready ready_of(Answer answer, std::uint64_t& kept) {
  Ready ready{answer.status, response_of(std::move(answer.text), answer.type, kept)};
  if (answer.status == 405) add_header(ready.response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  if (answer.status == 503) add_header(ready.response, MHD_HTTP_HEADER_RETRY_AFTER, "5");
  if (answer.status == 413 || answer.status == 405 || answer.status == 431)
    add_header(ready.response, MHD_HTTP_HEADER_CONNECTION, "close");
  return ready;
}

void send_busy(int connection) noexcept {
  constexpr std::string_view kBusy =
      "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Type: "
      "text/plain\r\n"
      "Content-Length: 36\r\n\r\ntallyd serves as many as it can now\n";
  (void)!::send(connection, kBusy.data(), kBusy.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)::shutdown(connection, SHUT_RDWR);
}

std::string local_address(int connection) {
  sockaddr_storage at{};
  socklen_t size = sizeof at;
  if (::getsockname(connection, reinterpret_cast<sockaddr*>(&at), &size) != 0) return {};
  Ipv6 address{};
  if (at.ss_family == AF_INET) {
    Ipv4 v4{};
    std::memcpy(v4.data(), &reinterpret_cast<const sockaddr_in*>(&at)->sin_addr, v4.size());
    address = mapped(v4);
  } else if (at.ss_family == AF_INET6) {
    std::memcpy(address.data(), &reinterpret_cast<const sockaddr_in6*>(&at)->sin6_addr, address.size());
  } else {
    return {};
  }
  return members::address_text(address);
}

RequestHeader header_of(MHD_Connection* connection, std::string_view name) {
  RequestHeader search{name};
  MHD_get_connection_values(
      connection, MHD_HEADER_KIND,
      [](void* to, MHD_ValueKind /*kind*/, const char* key, const char* value) {
        auto& found = *static_cast<RequestHeader*>(to);
        if (found.name.size() == std::strlen(key) &&
            ::strncasecmp(key, found.name.data(), found.name.size()) == 0) {
          found.value = value == nullptr ? std::string_view() : std::string_view(value);
          ++found.times;
        }
        return MHD_YES;
      },
      &search);
  return search;
}

}  // namespace tally::http
