#include "read_file.h"

#include <array>
#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tally {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

tl::unexpected<Complaint> cannot_read(const std::string& path, int error) {
  std::string help = "check that it is a readable file";
  if (error == ENOENT) help = "check the path";
  if (error == EACCES) help = "let the user that runs tallyd read it (chown, chmod)";
  if (error == EISDIR) help = "name a file in it";
  return complain("cannot read " + shown(path) + ": " + std::generic_category().message(error), help);
}

}  // namespace

Parsed<FileText> read_file(const std::string& path, std::size_t longest, FileKind kind) {
  // A pipe that nobody writes to must not hang us where only a regular file is meant.
  const int flags = O_RDONLY | O_CLOEXEC | (kind == FileKind::kRegular ? O_NONBLOCK : 0);
  const Descriptor file(::open(path.c_str(), flags));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0) return cannot_read(path, errno);
  if (S_ISDIR(status.st_mode)) return cannot_read(path, EISDIR);
  if (kind == FileKind::kRegular && !S_ISREG(status.st_mode)) {
    return complain(shown(path) + " is not a regular file", "name a file");
  }
  FileText out{{}, status.st_mode};
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return cannot_read(path, errno);
    if (got == 0) return out;
    out.text.append(buffer.data(), static_cast<std::size_t>(got));
    if (out.text.size() > longest) {
      return complain(shown(path) + " has more than " + std::to_string(longest) + " bytes",
                      "is it the right file?");
    }
  }
}

}  // namespace tally
