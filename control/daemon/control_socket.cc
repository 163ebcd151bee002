#include "daemon/control_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "config/diagnostic.h"
#include "config/load_config.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr const char* kRuntimeDirectory = "/run/tally";
constexpr auto kLockPatience = std::chrono::seconds(1);

std::string message_of(int error) { return std::generic_category().message(error); }

tl::unexpected<Error> refused(SocketRole role, const std::string& path, const std::string& what) {
  return fail(ErrorCode::kSystem, std::string(role.name) + " " + config::shown(path) + " " + what, role.key);
}

tl::unexpected<Error> cannot(SocketRole role, const std::string& path, int error, const std::string& help) {
  return tl::unexpected<Error>(Error{ErrorCode::kSystem,
                                     std::string(role.name) + " " + config::shown(path) +
                                         " cannot be made: " + message_of(error) + ": " + help,
                                     role.key, error});
}

// path: at most config::kMaxSocketPath bytes.
sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

std::optional<ucred> peer_of(int connection) noexcept {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer;
}

// "process 1234 (tallyd)"; a process calls itself what it likes.
std::string process_text(pid_t pid) {
  const auto name = config::read_file("/proc/" + std::to_string(pid) + "/comm", 64);
  std::string text = "process " + std::to_string(pid);
  if (name) text += " (" + text::cleaned(name->text.substr(0, name->text.find('\n'))) + ")";
  return text;
}

// Until it goes, no other daemon looks what there is in the directory and puts its socket there. Whoever may
// read the directory can hold such a lock: who waits in vain goes on without it.
class DirectoryLock {
 public:
  explicit DirectoryLock(const std::string& directory)
      : directory_(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    const auto until = std::chrono::steady_clock::now() + kLockPatience;
    while (directory_ && ::flock(directory_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }

 private:
  UniqueFd directory_;
};

// Makes way at the path, if what is there is a socket of nobody.
Result<void> clear_way(SocketRole role, const std::string& path, const sockaddr_un& address) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return {};
  if (!S_ISSOCK(status.st_mode))
    return refused(role, path, "is taken by something else: remove it, or name another path");
  if (const std::string who = listener_at(address, sizeof address); !who.empty())
    return refused(
        role, path,
        "is in use by " + who + ": stop that daemon, or name another socket (and another instance)");
  ::unlink(path.c_str());
  return {};
}

Result<std::optional<gid_t>> group_of(const config::ControlSection& control) {
  if (!control.group) return std::optional<gid_t>();
  errno = 0;
  const group* const found = ::getgrnam(control.group->c_str());
  if (found == nullptr)
    return fail(
        ErrorCode::kInvalidArgument,
        "there is no group " + config::shown(*control.group) + " here: make it (groupadd), or name another",
        "control.group");
  return std::optional<gid_t>(found->gr_gid);
}

// "root, user tally or a member of group ops"
std::string whom_to_be(const std::optional<std::string>& group) {
  std::string text = "root";
  if (::geteuid() != 0) {
    const passwd* const user = ::getpwuid(::geteuid());
    text += std::string(group ? ", " : " or ") + "user " +
            (user == nullptr ? std::to_string(::geteuid()) : std::string(user->pw_name));
  }
  return group ? text + " or a member of group " + *group : text;
}

mode_t mode_of(config::ControlSection::Access access) noexcept {
  switch (access) {
    case config::ControlSection::Access::kOwner:
      return 0600;
    case config::ControlSection::Access::kGroup:
      return 0660;
    case config::ControlSection::Access::kEverybody:
      return 0666;
  }
  return 0600;
}

bool is_member(int connection, const ucred& peer, gid_t group) {
  if (peer.gid == group) return true;
  socklen_t size = 0;  // with no room the call says how much it takes
  std::vector<gid_t> groups;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0 || errno != ERANGE)
    return false;
  groups.resize(size / sizeof(gid_t));
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) return false;
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

// Of a file that was just made. By its descriptor: in a directory of somebody else, what has the name by now
// may be another.
bool give_to(int file, const std::optional<gid_t>& group) noexcept {
  return !group || ::fchownat(file, "", static_cast<uid_t>(-1), *group, AT_EMPTY_PATH) == 0;
}

bool set_mode(int file, mode_t mode) {
  // fchmod() does not take a descriptor that is only a place.
  return ::chmod(("/proc/self/fd/" + std::to_string(file)).c_str(), mode) == 0;
}

}  // namespace

std::string listener_at(const sockaddr_un& address, socklen_t size) {
  const UniqueFd probe(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0) {
    const auto peer = peer_of(probe.get());
    return peer ? process_text(peer->pid) : "somebody";
  }
  // Whatever else is in the way (a socket of another type, of a user who does not let us in, a full queue),
  // only this says that nobody is there.
  const int error = errno;
  return error == ECONNREFUSED || error == ENOENT ? "" : "somebody (" + message_of(error) + ")";
}

Result<ControlSocket> ControlSocket::listen(const std::string& path, const config::ControlSection& control,
                                            SocketRole role) {
  const std::string directory = std::filesystem::path(path).parent_path().string();
  if (path.size() > config::kMaxSocketPath) return refused(role, path, "has too long a path: shorten it");
  // Whatever our umask is: who may open the socket must get there.
  if (directory == kRuntimeDirectory && ::mkdir(kRuntimeDirectory, 0755) == 0)
    (void)::chmod(kRuntimeDirectory, 0755);
  const auto group = group_of(control);
  if (!group) return tl::unexpected<Error>(group.error());
  const sockaddr_un address = address_of(path);
  const DirectoryLock lock(directory);
  if (auto free = clear_way(role, path, address); !free) return tl::unexpected<Error>(free.error());
  ControlSocket made;
  made.socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  // The mode of the file is the descriptor's: nobody else gets in before owner and mode are what they shall
  // be.
  if (!made.socket_ || ::fchmod(made.socket_.get(), 0600) != 0)
    return cannot(role, path, errno, "look at this process's limit of open files (ulimit -n)");
  if (::bind(made.socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    const int error = errno;
    const std::string help = error == ENOENT ? "make its directory first: mkdir -p " + directory
                                             : "the user that runs tallyd must be able to write " + directory;
    return cannot(role, path, error, help);
  }
  const UniqueFd file(::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISSOCK(status.st_mode))
    return refused(role, path, "was taken away while it was made: name a path where nobody else can write");
  made.path_ = path;
  made.device_ = status.st_dev;
  made.inode_ = status.st_ino;
  made.group_ = *group;
  made.whom_to_be_ = whom_to_be(control.group);
  if (!give_to(file.get(), made.group_))
    return cannot(role, path, errno,
                  "only a member of group " + *control.group +
                      ", or root with CAP_CHOWN, can give it to that group (SupplementaryGroups= of a "
                      "systemd unit)");
  if (!set_mode(file.get(), mode_of(control.access)) || ::listen(made.socket_.get(), role.backlog) != 0)
    return cannot(role, path, errno, "the file system does not let us");
  return made;
}

ControlSocket::ControlSocket(ControlSocket&& other) noexcept
    : socket_(std::move(other.socket_)),
      path_(std::exchange(other.path_, {})),
      device_(other.device_),
      inode_(other.inode_),
      group_(other.group_),
      whom_to_be_(std::move(other.whom_to_be_)) {}

ControlSocket::~ControlSocket() {
  struct stat status {};
  const bool ours = !path_.empty() && ::lstat(path_.c_str(), &status) == 0 && status.st_dev == device_ &&
                    status.st_ino == inode_;
  if (ours) ::unlink(path_.c_str());
}

api::Caller ControlSocket::caller_at(int connection) const {
  api::Caller caller{.whom_to_be = whom_to_be_};
  const auto peer = peer_of(connection);
  if (!peer) return caller;
  const bool ours = peer->uid == 0 || peer->uid == ::geteuid();
  caller.may_change = ours || (group_ && is_member(connection, *peer, *group_));
  // Of the others nothing gets into the log.
  if (caller.may_change)
    caller.name =
        (peer->uid == 0 ? "root" : "uid " + std::to_string(peer->uid)) + ", " + process_text(peer->pid);
  return caller;
}

}  // namespace tally::daemon
