#include "members/texts.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <bit>

#include "tally/wire.h"

namespace tally::members {
namespace {

// "rank 3", "ranks 0, 2 and 5"
std::string numbered(const RankNames& names, std::uint64_t bits) {
  std::string text = names.word + std::string(std::popcount(bits) == 1 ? " " : "s ");
  for (bool first = true; bits != 0; first = false) {
    const int number = names.first + std::countr_zero(bits);
    bits &= bits - 1;
    if (!first) text += bits == 0 ? " and " : ", ";
    text += std::to_string(number);
  }
  return text;
}

}  // namespace

std::string address_text(const Ipv6& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  const bool v4 = is_mapped_ipv4(address);
  const void* bytes = v4 ? &address[12] : address.data();
  const char* done = inet_ntop(v4 ? AF_INET : AF_INET6, bytes, text.data(), text.size());
  return done != nullptr ? done : "?";
}

std::string ranks_text(std::uint64_t ranks, const RankNames& names) {
  return ranks == 0 ? "no " + std::string(names.word) : numbered(names, ranks);
}

std::string rank_text(Rank rank, const RankNames& names) {
  const std::uint32_t server = server_index(rank);
  if (server < kMaxServers) return "server " + std::to_string(server);
  std::string text = names.word;
  text += ' ';
  return text += std::to_string(names.first + raw(rank));
}

std::string members_text(std::uint64_t ranks, std::uint32_t servers, const RankNames& names) {
  if (servers == 0) return ranks_text(ranks, names);
  return (ranks == 0 ? "" : ranks_text(ranks, names) + " and ") + numbered({.word = "server"}, servers);
}

std::string seconds_text(TimeNs t) {
  const std::uint64_t tenths = (t + 50 * kMillisecond) / (100 * kMillisecond);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

std::string kib_text(std::uint64_t lines) { return std::to_string((lines + 15) / 16) + " KiB"; }

std::string too_narrow_text(Rank server, std::uint16_t carries, std::uint16_t elements) {
  return "admission: " + rank_text(server) + " carries packets of " + std::to_string(carries) +
         " elements at most, and the job's have " + std::to_string(elements) +
         ": raise its mtu, or start the workers anew";
}

std::string_view bounded(std::string_view text) noexcept {
  if (text.size() <= kMaxTextBytes) return text;
  std::size_t end = kMaxTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

}  // namespace tally::members
