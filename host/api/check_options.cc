#include "check_options.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "in_quotes.h"
#include "tally/wire.h"
#include "tally/wire_join.h"

namespace tally {
namespace {

// Bits of an IP address; 0 if it is none.
unsigned address_bits(const std::string& text) {
  std::array<unsigned char, 16> bytes{};
  if (inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return 32;
  return inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1 ? 128 : 0;
}

bool is_cidr(const std::string& text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string::npos) return false;
  const unsigned bits = address_bits(text.substr(0, slash));
  unsigned prefix = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + slash + 1, end, prefix);
  return bits != 0 && read.ec == std::errc{} && read.ptr == end && prefix <= bits;
}

class Checker {
 public:
  Checker(const WorkerOptions& options, const OptionTexts& texts) : o_(options), texts_(texts) {}

  [[nodiscard]] Result<void> missing() const {
    if (o_.job.empty()) return refuse("job", "no job is named: the name of a job in tallyd's configuration");
    if (o_.box.empty()) return refuse("switch", "no box is named: its IP address, for example 10.0.0.1");
    return {};
  }

  [[nodiscard]] Result<void> texts() const {
    if (const auto why = objection_to_text(o_.job, kMaxNameBytes); !why.empty())
      return refuse("job", in_quotes(o_.job) + why);
    if (const auto why = objection_to_text(o_.token, kMaxTokenBytes); !why.empty())
      return refuse("token", "the token" + why);  // a secret: not shown
    if (!o_.box.empty() && address_bits(o_.box) == 0)
      return refuse("switch", in_quotes(o_.box) +
                                  " is not an IP address; names are not looked up: write "
                                  "10.0.0.1 or fd00::1");
    const std::size_t colon = o_.transport.find(':');
    if (colon == 0 || (colon == std::string::npos && !o_.transport.empty() && o_.transport != "udp"))
      return refuse("transport", in_quotes(o_.transport) +
                                     " is neither udp nor SCHEME:DEVICE, for example "
                                     "dpdk:net_memif0,role=client,id=0,socket=PATH");
    if (!o_.address.empty() && address_bits(o_.address) == 0 && !is_cidr(o_.address))
      return refuse("address", in_quotes(o_.address) +
                                   " is not an IP address, alone or with a prefix length, for example "
                                   "10.0.0.11/24");
    if (!o_.debug.empty() && o_.debug != "INFO" && o_.debug != "TRACE")
      return refuse("debug", in_quotes(o_.debug) + " is not INFO or TRACE");
    return {};
  }

  [[nodiscard]] Result<void> numbers() const {
    if (o_.world < 1 || o_.world > kMaxRanks)
      return refuse("world", std::to_string(o_.world) + " is not in 1..64");
    if (o_.rank >= o_.world) return refuse("rank", rank_beyond_world());
    if (!valid_elements(o_.elements))
      return refuse("elements", std::to_string(o_.elements) +
                                    " is not a multiple of 16 in 16..2224, nor 0 (what the MTU carries)");
    if (o_.mtu < kLeastMtu || o_.mtu > kGreatestMtu)
      return refuse("mtu", std::to_string(o_.mtu) + " is not in " + std::to_string(kLeastMtu) + ".." +
                               std::to_string(kGreatestMtu));
    if (o_.priority > kGreatestPriority)
      return refuse("priority", std::to_string(o_.priority) + " is not in 0..254");
    if (o_.join_timeout.count() < 1 || o_.join_timeout > kGreatestJoinTimeout)
      return refuse("join_timeout", std::to_string(o_.join_timeout.count()) + " ms is not in 1 ms..24 h");
    return {};
  }

 private:
  [[nodiscard]] tl::unexpected<Error> refuse(std::string_view setting, std::string what) const {
    const auto text = texts_.find(setting);
    return fail(ErrorCode::kInvalidArgument, std::move(what),
                text != texts_.end() ? text->second.where : variable_of(setting));
  }
  [[nodiscard]] std::string rank_beyond_world() const {
    const auto world = texts_.find("world");
    const std::string said =
        world != texts_.end() ? world->second.where + " says" : std::string("the options say (TALLY_WORLD)");
    return "rank " + std::to_string(o_.rank) + " is not below the world of " + std::to_string(o_.world) +
           " that " + said + "; ranks count from 0";
  }

  const WorkerOptions& o_;
  const OptionTexts& texts_;
};

}  // namespace

std::string objection_to_text(std::string_view text, std::size_t most_bytes) {
  if (text.size() > most_bytes)
    return " has " + std::to_string(text.size()) + " bytes, at most " + std::to_string(most_bytes) +
           " are allowed";
  const bool control =
      std::any_of(text.begin(), text.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7f; });
  return control ? " contains a line break or another control character" : "";
}

Result<void> check_options(const WorkerOptions& options, const OptionTexts& texts, bool complete) {
  const Checker checker(options, texts);
  if (complete) {
    if (auto all = checker.missing(); !all) return all;
  }
  if (auto fine = checker.texts(); !fine) return fine;
  return checker.numbers();
}

}  // namespace tally
