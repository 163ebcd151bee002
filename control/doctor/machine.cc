#include "doctor/machine.h"

#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "tally/unique_fd.h"

namespace tally::doctor {
namespace {

constexpr std::size_t kMostLines = 4096;
constexpr unsigned kMostCpus = 8192;

std::string user_name() {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr)
    return found->pw_name;
  return std::to_string(::geteuid());
}

// Without the right to such a socket the kernel says so, and has it.
bool has_af_xdp() {
  const UniqueFd socket(::socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0));
  return socket || errno != EAFNOSUPPORT;
}

}  // namespace

Machine Machine::here() { return {.af_xdp = has_af_xdp(), .raised = ::geteuid() == 0, .user = user_name()}; }

std::vector<std::string> Machine::lines(const std::string& path) const {
  std::ifstream file(root + path);
  std::vector<std::string> all;
  for (std::string line; all.size() < kMostLines && std::getline(file, line);) all.push_back(line);
  return all;
}

std::optional<std::string> Machine::line(const std::string& path) const {
  std::ifstream file(root + path);
  std::string text;
  if (!file.is_open()) return std::nullopt;
  std::getline(file, text);
  return text;
}

std::optional<std::uint64_t> Machine::number(const std::string& path) const {
  const auto text = line(path);
  std::uint64_t n = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), n).ec != std::errc())
    return std::nullopt;
  return n;
}

std::vector<std::uint16_t> cpus_of(const std::string& list) {
  std::vector<std::uint16_t> all;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (at < end) {
    unsigned first = 0;
    auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc()) break;
    unsigned last = first;
    if (read.ptr < end && *read.ptr == '-') read = std::from_chars(read.ptr + 1, end, last);
    for (unsigned cpu = first; cpu <= last && cpu < kMostCpus; ++cpu)
      all.push_back(static_cast<std::uint16_t>(cpu));
    at = read.ptr + 1;  // the comma
  }
  return all;
}

std::vector<std::uint16_t> Machine::cpus(const std::string& path) const {
  return cpus_of(line(path).value_or(""));
}

std::optional<std::string> Machine::target(const std::string& link) const {
  std::error_code error;
  const auto path = std::filesystem::read_symlink(root + link, error);
  if (error) return std::nullopt;
  return path.filename().string();
}

bool Machine::exists(const std::string& path) const { return ::access((root + path).c_str(), F_OK) == 0; }

std::optional<mode_t> Machine::mode(const std::string& path) const {
  struct stat status {};
  if (::stat((root + path).c_str(), &status) != 0) return std::nullopt;
  return status.st_mode;
}

bool Machine::may_write(const std::string& directory) const {
  return ::access((root + directory).c_str(), W_OK | X_OK) == 0;
}

std::vector<std::string> Machine::names_in(const std::string& directory) const {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(root + directory, error)) {
    names.push_back(entry.path().filename().string());
    if (names.size() == kMostLines) break;
  }
  return names;
}

std::string Machine::value_of(const std::string& path, const std::string& name) const {
  std::ifstream file(root + path);
  // No further than to the name: /proc/cpuinfo asks each CPU as it comes to it, which takes its time.
  for (std::string text; std::getline(file, text);) {
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) continue;
    if (text.substr(0, text.find_last_not_of(" \t", colon - 1) + 1) != name) continue;
    const std::size_t at = text.find_first_not_of(" \t", colon + 1);
    return at == std::string::npos ? "" : text.substr(at);
  }
  return {};
}

}  // namespace tally::doctor
