#include "runtime_directory.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string_view>

namespace tally {
namespace {

constexpr const char* kVariable = "RUNTIME_DIRECTORY";
constexpr std::string_view kStart = "tally-eal-";  // tally-eal-PID-XXXXXX

// Of other users' directories the removal fails.
void remove_left_behind(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStart)) continue;
    pid_t pid = 0;
    const char* const end = name.data() + name.size();
    const auto [next, error] = std::from_chars(name.data() + kStart.size(), end, pid);
    if (error != std::errc{} || next == end || *next != '-' || pid <= 0) continue;
    if (kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace

RuntimeDirectory::RuntimeDirectory(const std::filesystem::path& parent) {
  if (getenv(kVariable) != nullptr) return;
  remove_left_behind(parent);
  std::string path = (parent / (std::string(kStart) + std::to_string(getpid()) + "-XXXXXX")).string();
  if (mkdtemp(path.data()) == nullptr) return;
  path_ = path;
  setenv(kVariable, path_.c_str(), 1);
}

RuntimeDirectory::~RuntimeDirectory() {
  if (path_.empty()) return;
  unsetenv(kVariable);
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tally
