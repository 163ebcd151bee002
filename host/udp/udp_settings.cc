#include "udp/udp_settings.h"

#include <string>

#include "text/text.h"

namespace tally::udp {
namespace {

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "TALLY_TRANSPORT");
}

std::string said(std::string_view key, std::string_view value) {
  return std::string(key).append("=").append(value);
}

template <class T>
Result<void> number(std::string_view key, std::string_view value, std::uint32_t least, std::uint32_t most,
                    T& to) {
  const auto n = text::whole_number(value, least, most);
  if (!n)
    return bad(said(key, value) + ": must be a number from " + std::to_string(least) + " to " +
               std::to_string(most));
  to = static_cast<T>(*n);
  return {};
}

Result<void> take(std::string_view key, std::string_view value, UdpSettings& settings) {
  if (key == "gso") {
    if (value != "on" && value != "off" && value != "auto")
      return bad(said(key, value) + ": must be on, off or auto");
    settings.gso = value == "on" ? Gso::kOn : value == "off" ? Gso::kOff : Gso::kAuto;
    return {};
  }
  if (key == "buffer") {
    const auto bytes = text::parse_bytes(value);
    if (!bytes || *bytes < UdpSettings::kLeastBuffer || *bytes > UdpSettings::kMostBuffer)
      return bad(said(key, value) + ": must be a size from 64KiB to 1GiB, such as 4MiB");
    settings.buffer = *bytes;
    return {};
  }
  if (key == "backlog")
    return number(key, value, UdpSettings::kLeastBacklog, UdpSettings::kMostBacklog, settings.backlog);
  if (key == "port") return number(key, value, 1024, 65'535, settings.port);
  if (key == "busy-poll") return number(key, value, 1, 1000, settings.busy_poll_us);
  return bad(text::in_quotes(key) +
             " is no option of udp: there are port=, buffer=, backlog=, gso= and busy-poll=");
}

}  // namespace

Result<UdpSettings> parse_udp_settings(std::string_view text) {
  UdpSettings settings;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(word.size() + (word.size() < text.size() ? 1 : 0));
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0)
      return bad(text::in_quotes(word) + " is not KEY=VALUE: write udp, or for example udp:buffer=8MiB");
    if (auto taken = take(word.substr(0, equals), word.substr(equals + 1), settings); !taken)
      return tl::unexpected(taken.error());
  }
  return settings;
}

}  // namespace tally::udp
