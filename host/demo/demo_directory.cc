#include "demo_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tally {
namespace {

constexpr const char* kPrefix = "tally-demo.";
constexpr const char* kLock = "/lock";

tl::unexpected<Error> cannot(const std::string& what) {
  const int error = errno;
  return tl::unexpected<Error>(
      Error{ErrorCode::kSystem, "cannot " + what + ": " + std::strerror(error), {}, error});
}

bool ours(const std::filesystem::path& path) {
  struct stat about {};
  return lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == geteuid();
}

}  // namespace

Result<DemoDirectory> DemoDirectory::create(const std::string& parent) {
  std::string path = parent + "/" + kPrefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return cannot("make a directory in " + parent);
  // Gets its name when it is locked: another demo's sweep must not take it in between.
  const std::string unnamed = path + kLock + ".new";
  Descriptor lock(open(unnamed.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_EXCL, 0600));
  if (!lock.open() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0 ||
      rename(unnamed.c_str(), (path + kLock).c_str()) != 0)
    return cannot("lock a file in " + path);
  return DemoDirectory(std::move(path), std::move(lock));
}

DemoDirectory::DemoDirectory(DemoDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

DemoDirectory::~DemoDirectory() {
  std::error_code ignored;  // what cannot be removed now is removed by the next demo
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Result<void> DemoDirectory::write(const std::string& name, const std::string& text) const {
  std::ofstream out(path_ + "/" + name);
  out << text;
  out.close();
  if (!out) return cannot("write " + path_ + "/" + name);
  return {};
}

int DemoDirectory::sweep(const std::string& parent) {
  std::error_code error;
  int removed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    if (!entry.path().filename().string().starts_with(kPrefix) || !ours(entry.path())) continue;
    const Descriptor lock(open((entry.path().string() + kLock).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    // No lock file: a demo that is just being started, or somebody else's directory.
    if (!lock.open() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) continue;
    std::error_code ignored;
    if (std::filesystem::remove_all(entry.path(), ignored) > 0) ++removed;
  }
  return removed;
}

}  // namespace tally
