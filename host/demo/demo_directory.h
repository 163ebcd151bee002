#pragma once
// A private directory for one run: sockets and the configuration. Removed at the end; what a killed demo left
// behind is removed by the next one.

#include <string>

#include "child_process.h"
#include "tally/error.h"

namespace tally {

class DemoDirectory {
 public:
  // Below `parent`, mode 0700, with a locked file that shows that its owner lives.
  [[nodiscard]] static Result<DemoDirectory> create(const std::string& parent);
  DemoDirectory(DemoDirectory&& other) noexcept;
  DemoDirectory& operator=(DemoDirectory&&) = delete;
  ~DemoDirectory();

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Result<void> write(const std::string& name, const std::string& text) const;

  // Removes the directories below `parent` whose owner is gone; returns how many.
  static int sweep(const std::string& parent);

 private:
  DemoDirectory(std::string path, Descriptor lock) : path_(std::move(path)), lock_(std::move(lock)) {}

  std::string path_;
  Descriptor lock_;  // closed when the owner dies, and with it the lock goes
};

}  // namespace tally
