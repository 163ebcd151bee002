#include "udp/udp_settings.h"

#include <charconv>
#include <string>

#include "api/worker_options.h"

namespace tally::udp {
namespace {

tl::unexpected<Error> bad(std::string what) {
  return fail(ErrorCode::kInvalidArgument, std::move(what), "TALLY_TRANSPORT");
}

std::string said(std::string_view key, std::string_view value) {
  return std::string(key).append("=").append(value);
}

Result<std::uint32_t> number(std::string_view key, std::string_view value, std::uint32_t least,
                             std::uint32_t most) {
  std::uint32_t n = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, n);
  if (read.ec == std::errc{} && read.ptr == end && n >= least && n <= most) return n;
  return bad(said(key, value) + ": must be a number from " + std::to_string(least) + " to " +
             std::to_string(most));
}

Result<std::size_t> size(std::string_view key, std::string_view value) {
  std::uint32_t n = 0;
  const char* const end = value.data() + value.size();
  const auto read = std::from_chars(value.data(), end, n);
  const std::string_view unit(read.ptr, static_cast<std::size_t>(end - read.ptr));
  const unsigned shift = unit == "KiB" ? 10 : unit == "MiB" ? 20 : unit == "GiB" ? 30 : 0;
  const std::size_t bytes = std::size_t{n} << shift;
  if (read.ec == std::errc{} && (shift != 0 || unit.empty()) && bytes >= UdpSettings::kLeastBuffer &&
      bytes <= UdpSettings::kMostBuffer)
    return bytes;
  return bad(said(key, value) + ": must be a size from 64KiB to 1GiB, such as 4MiB");
}

Result<void> take(std::string_view key, std::string_view value, UdpSettings& settings) {
  if (key == "gso") {
    if (value != "on" && value != "off" && value != "auto")
      return bad(said(key, value) + ": must be on, off or auto");
    settings.gso = value == "on" ? Gso::kOn : value == "off" ? Gso::kOff : Gso::kAuto;
    return {};
  }
  if (key == "buffer") {
    const auto bytes = size(key, value);
    if (!bytes) return tl::unexpected(bytes.error());
    settings.buffer = *bytes;
    return {};
  }
  if (key == "backlog") {
    const auto datagrams = number(key, value, UdpSettings::kLeastBacklog, UdpSettings::kMostBacklog);
    if (!datagrams) return tl::unexpected(datagrams.error());
    settings.backlog = *datagrams;
    return {};
  }
  if (key == "port") {
    const auto port = number(key, value, 1024, 65'535);
    if (!port) return tl::unexpected(port.error());
    settings.port = static_cast<std::uint16_t>(*port);
    return {};
  }
  if (key == "busy-poll") {
    const auto us = number(key, value, 1, 1000);
    if (!us) return tl::unexpected(us.error());
    settings.busy_poll_us = *us;
    return {};
  }
  return bad(in_quotes(key) +
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
      return bad(in_quotes(word) + " is not KEY=VALUE: write udp, or for example udp:buffer=8MiB");
    if (auto taken = take(word.substr(0, equals), word.substr(equals + 1), settings); !taken)
      return tl::unexpected(taken.error());
  }
  return settings;
}

}  // namespace tally::udp
