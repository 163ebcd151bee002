#pragma once
// The directory that EAL makes at its start even when it puts nothing into it; for an ordinary user by
// default below /tmp/dpdk, which may be another user's. Ours is private, and gone as soon as EAL has started.

#include <filesystem>
#include <string>

namespace tally {

class RuntimeDirectory {
 public:
  // Sets RUNTIME_DIRECTORY for as long as this lives, unless it is set already (systemd). Removes what
  // processes that were killed during their start have left in `parent`.
  explicit RuntimeDirectory(const std::filesystem::path& parent);
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;
  ~RuntimeDirectory();

 private:
  std::string path_;
};

}  // namespace tally
