// Options, structs that grow, and error texts of the C face.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "c_api.h"

namespace tally {
namespace {

// tally_options as it was at first.
constexpr std::size_t kFirstOptions = offsetof(tally_options, priority);

std::string& last_error() {
  thread_local std::string text;
  return text;
}

std::size_t size_of(const void* sized) noexcept {
  std::size_t size = 0;
  std::memcpy(&size, sized, sizeof size);
  return size;
}

std::string text_of(const char* text) { return text == nullptr ? std::string() : std::string(text); }

}  // namespace

tally_code c_failure(const Error& error) noexcept {
  last_error() = error.text();
  return static_cast<tally_code>(static_cast<int>(error.code) + 1);
}

tally_code c_invalid(std::string what) noexcept {
  return c_failure({ErrorCode::kInvalidArgument, std::move(what)});
}

tally_code take_struct(const void* from, std::size_t least, void* to, std::size_t known,
                       const char* name) noexcept {
  const std::size_t size = size_of(from);
  if (size < least)
    return c_invalid(std::string(name) + ": size is " + std::to_string(size) +
                     ", begin with its _INIT macro");
  const auto* const bytes = static_cast<const unsigned char*>(from);
  for (std::size_t i = known; i < size; ++i) {
    if (bytes[i] != 0)
      return c_invalid(std::string(name) + ": a member that libtally " + tally_version() +
                       " does not know is set; install the version the program was compiled with");
  }
  std::memcpy(to, from, std::min(size, known));
  return TALLY_OK;
}

tally_code give_struct(const void* from, std::size_t known, void* to, std::size_t least,
                       const char* name) noexcept {
  const std::size_t size = size_of(to);
  if (size < least)
    return c_invalid(std::string(name) + ": size is " + std::to_string(size) +
                     ", begin with its _INIT macro");
  std::memcpy(to, from, std::min(size, known));
  std::memcpy(to, &size, sizeof size);
  return TALLY_OK;
}

tally_code worker_options(const tally_options& from, WorkerOptions& to) noexcept {
  tally_options o = TALLY_OPTIONS_INIT;
  if (const tally_code bad = take_struct(&from, kFirstOptions, &o, sizeof o, "tally_options")) return bad;
  if (o.reserved != 0) return c_invalid("tally_options: reserved is not 0, begin with its _INIT macro");
  if (o.priority > kGreatestPriority)
    return c_invalid("priority: " + std::to_string(o.priority) + " is not in 0..254");
  to.job = text_of(o.job);
  to.token = text_of(o.token);
  to.box = text_of(o.box);
  if (o.transport != nullptr) to.transport = o.transport;
  to.address = text_of(o.address);
  to.debug = text_of(o.debug);
  to.rank = o.rank;
  to.world = o.world;
  to.elements = o.elements;
  to.mtu = o.mtu;
  to.poll = o.poll != 0;
  to.join_timeout = std::chrono::milliseconds(o.join_timeout_ms);
  to.priority = static_cast<std::uint16_t>(o.priority);
  return TALLY_OK;
}

}  // namespace tally

const char* tally_last_error(void) { return tally::last_error().c_str(); }

const char* tally_code_name(int code) {
  constexpr std::array<const char*, 11> kNames{
      "TALLY_OK",          "TALLY_INVALID_ARGUMENT", "TALLY_QUANTISE", "TALLY_ABORTED",
      "TALLY_REFUSED",     "TALLY_UNREACHABLE",      "TALLY_TIMEOUT",  "TALLY_CORRUPT",
      "TALLY_FELL_BEHIND", "TALLY_CLOSED",           "TALLY_SYSTEM"};
  const auto i = static_cast<std::size_t>(code);
  return code >= 0 && i < kNames.size() ? kNames.at(i) : "TALLY_?";
}

const char* tally_version(void) { return TALLY_VERSION; }

tally_code tally_options_from_environment(tally_options* options) {
  thread_local tally::WorkerOptions read;
  auto result = tally::WorkerOptions::from_environment();
  if (!result) return tally::c_failure(result.error());
  read = std::move(*result);
  const tally_options known{sizeof(tally_options),
                            read.job.c_str(),
                            read.token.c_str(),
                            read.box.c_str(),
                            read.transport.c_str(),
                            read.address.c_str(),
                            read.debug.c_str(),
                            read.rank,
                            read.world,
                            read.elements,
                            read.mtu,
                            read.poll ? 1 : 0,
                            static_cast<std::uint32_t>(read.join_timeout.count()),
                            read.priority,
                            0};
  return tally::give_struct(&known, sizeof known, options, tally::kFirstOptions, "tally_options");
}
