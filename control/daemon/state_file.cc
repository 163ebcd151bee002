#include "daemon/state_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "kernels/kernels.h"
#include "tally/unique_fd.h"
#include "text/text.h"

namespace tally::daemon {
namespace {

constexpr const char* kVersionKey = "tally_jobs";
constexpr int kMostAside = 100;

std::string checksum_of(const std::string& instance, const api::Json& jobs) {
  const std::string all = instance + "\n" + api::dumped(jobs);
  return text::hexadecimal(
      kernels::best_kernels().crc32c(reinterpret_cast<const std::byte*>(all.data()), all.size()));
}

std::string folder_of(const std::string& path) { return std::filesystem::path(path).parent_path().string(); }

tl::unexpected<Error> failed(const std::string& what, int error) {
  Error made{ErrorCode::kSystem, what + ": " + std::generic_category().message(error)};
  made.sys_errno = error;
  return tl::unexpected<Error>(std::move(made));
}

Result<void> write_new(Files& files, const std::string& path, std::string_view text) {
  const int file = files.create(path);
  if (file < 0) return failed("cannot make " + path, errno);
  int error = 0;
  while (error == 0 && !text.empty()) {
    const ssize_t n = files.write(file, text);
    if (n < 0 && errno != EINTR) error = errno;
    if (n == 0) error = EIO;
    if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (error == 0 && files.sync(file) != 0) error = errno;
  if (files.close(file) != 0 && error == 0) error = errno;
  return error == 0 ? Result<void>() : failed("cannot write " + path, error);
}

}  // namespace

std::string state_text(const State& state) {
  const api::Json jobs(state.jobs);
  return api::dumped({{kVersionKey, kStateVersion},
                      {"instance", state.instance},
                      {"checksum", checksum_of(state.instance, jobs)},
                      {"jobs", jobs}}) +
         "\n";
}

tl::expected<State, std::string> read_state(std::string_view text, const std::string& instance) {
  const auto unfit = [](std::string why) { return tl::unexpected<std::string>(std::move(why)); };
  const auto root = api::read_json(text);
  if (!root) return unfit("is torn: " + root.error().message);
  const auto version = root->is_object() ? root->find(kVersionKey) : root->end();
  if (!root->is_object() || version == root->end() || !version->is_number_unsigned())
    return unfit("is none of tallyd's");
  if (*version != kStateVersion)
    return unfit("is of version " + api::dumped(*version) + ", and this tallyd knows version " +
                 std::to_string(kStateVersion));
  const auto of = root->find("instance");
  const auto checksum = root->find("checksum");
  const auto jobs = root->find("jobs");
  if (of == root->end() || !of->is_string() || checksum == root->end() || jobs == root->end() ||
      !jobs->is_array())
    return unfit("is torn: a member is missing");
  if (*checksum != checksum_of(of->get<std::string>(), *jobs)) return unfit("is torn: its checksum is wrong");
  if (*of != instance)
    return unfit("is of the instance '" + text::cleaned(of->get<std::string>()) + "', and this is '" +
                 instance + "'");
  State state{instance, {}};
  for (const api::Json& job : *jobs) {
    if (!job.is_object()) return unfit("is none of tallyd's");
    state.jobs.push_back(job);
  }
  return state;
}

int Files::create(const std::string& path) {
  return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
}
ssize_t Files::write(int file, std::string_view text) { return ::write(file, text.data(), text.size()); }
int Files::sync(int file) { return ::fsync(file); }
int Files::close(int file) { return ::close(file); }
int Files::rename(const std::string& from, const std::string& to) {
  return std::rename(from.c_str(), to.c_str());
}
int Files::sync_folder(const std::string& path) {
  const UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return folder ? ::fsync(folder.get()) : -1;
}

Result<void> replace_file(Files& files, const std::string& path, const std::string& text,
                          const std::string& former) {
  const std::string fresh = path + ".new";
  if (auto written = write_new(files, fresh, text); !written) {
    ::unlink(fresh.c_str());
    return written;
  }
  if (files.rename(fresh, path) != 0) {
    const int error = errno;
    ::unlink(fresh.c_str());
    return failed("cannot rename " + fresh, error);
  }
  if (files.sync_folder(folder_of(path)) == 0) return {};
  const int error = errno;
  // The new name may be on the disk or not. What was promised before is to be there.
  if (former.empty() || !write_new(files, fresh, former) || files.rename(fresh, path) != 0)
    ::unlink(path.c_str());
  (void)files.sync_folder(folder_of(path));
  return failed("cannot sync " + folder_of(path), error);
}

Result<void> usable_folder(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error) && ::access(path.c_str(), W_OK | X_OK) == 0) return {};
  return fail(ErrorCode::kInvalidArgument,
              path + " is no folder in which tallyd may write: make it, or write none", "control.state");
}

Result<std::string> set_aside(const std::string& path) {
  for (int n = 1; n <= kMostAside; ++n) {
    std::string name = path + ".unfit";
    if (n > 1) name.append("-").append(std::to_string(n));
    if (::renameat2(AT_FDCWD, path.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) == 0) return name;
    if (errno != EEXIST) return failed("cannot rename " + path, errno);
  }
  return fail(ErrorCode::kSystem, "cannot rename " + path + ": there are " + std::to_string(kMostAside) +
                                      " of its kind already; remove some of " + path + ".unfit*");
}

StateWriter::StateWriter(std::string path, std::string former, Post post, std::unique_ptr<Files> files)
    : path_(std::move(path)), post_(std::move(post)), files_(std::move(files)), former_(std::move(former)) {
  thread_ = std::thread([this] { work(); });
}

StateWriter::~StateWriter() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  woken_.notify_one();
  thread_.join();
}

void StateWriter::write(std::string text, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    wish_ = Wish{std::move(text), std::move(done)};
  }
  woken_.notify_one();
}

void StateWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    woken_.wait(lock, [this] { return over_ || wish_.has_value(); });
    if (over_) return;
    Wish wish = *std::exchange(wish_, std::nullopt);
    lock.unlock();
    Result<void> written = replace_file(*files_, path_, wish.text, former_);
    if (written) former_ = std::move(wish.text);
    post_([done = std::move(wish.done), written = std::move(written)] { done(written); });
    lock.lock();
  }
}

}  // namespace tally::daemon
