#include "dpdk/eal.h"

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_memory.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <utility>

#include "dpdk/threads.h"

namespace tally::dpdk {
namespace {

// Of the one EAL of this process; DPDK keeps the stream for as long as it runs. Nobody frees it at exit: see
// ~Eal.
DpdkLog* the_log = nullptr;
std::atomic<bool> started_once = false;

}  // namespace

std::vector<std::uint16_t> usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::uint16_t> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (std::uint16_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

namespace {

std::string list_of(const std::vector<std::uint16_t>& cpus) {
  std::string words;
  for (const std::uint16_t cpu : cpus) {
    if (!words.empty()) words += ',';
    words += std::to_string(cpu);
  }
  return words;
}

std::string whole_mebibytes(std::uint64_t bytes) { return std::to_string(bytes >> 20) + " MiB"; }

Result<void> check_cores(const EalOptions& options, const std::vector<std::uint16_t>& allowed) {
  if (allowed.empty()) return fail(ErrorCode::kSystem, "the kernel does not say which CPUs we may use");
  for (const std::uint16_t cpu : options.cores) {
    if (!options.pinned || std::ranges::find(allowed, cpu) != allowed.end()) continue;
    return fail(ErrorCode::kInvalidArgument,
                "CPU " + std::to_string(cpu) +
                    " does not exist here or this process may not use it; it may use " + list_of(allowed),
                "dataplane.cores");
  }
  return {};
}

}  // namespace

Result<bool> decide_hugepages(const EalOptions& options, std::string& warning) {
  if (options.hugepages == false) return false;
  const Hugepages now = hugepages_of();
  const bool enough = now.free_bytes >= options.memory_bytes;
  if (enough && hugepages_mappable()) return true;
  std::string why;
  if (enough) {
    why = "hugepages are free, but this process may not map them (a container or control group limits it?)";
  } else {
    why = whole_mebibytes(now.free_bytes) + " of hugepages are free and dataplane.memory is " +
          whole_mebibytes(options.memory_bytes) +
          "; to reserve them: " + reserve_command(now, options.memory_bytes);
  }
  if (options.hugepages == true) return fail(ErrorCode::kSystem, why, "dataplane.hugepages: on");
  warning = why + "; ordinary memory is used instead, which is slower";
  return false;
}

namespace {

Result<void> initialise(const EalOptions& options, bool hugepages, const std::string& cpus) {
  std::vector<std::string> words = eal_arguments(options, hugepages, cpus);
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  std::optional<RuntimeDirectory> directory;  // telemetry needs it later
  std::error_code ignored;
  if (std::ranges::find(options.extra, "--telemetry") == options.extra.end())
    directory.emplace(std::filesystem::temp_directory_path(ignored));
  const HeardErrors heard;
  if (rte_eal_init(static_cast<int>(words.size()), arguments.data()) >= 0) return {};
  const int code = rte_errno;
  if (code == EALREADY)
    return fail(ErrorCode::kSystem, "DPDK was started before in this process; it starts once per process");
  std::string command;
  for (const std::string& word : words) {
    if (!command.empty()) command += ' ';
    command += word;
  }
  std::string what = std::string("DPDK does not start: ") + rte_strerror(code) + heard.text();
  if (!options.extra.empty())
    what += "; is it an argument of dataplane.eal? tallyd --check --here says which";
  if (code == EACCES || code == EPERM)
    what += "; run as root, or give this user the devices named in the configuration (vfio)";
  return tl::unexpected<Error>(
      Error{.code = ErrorCode::kSystem, .what = std::move(what), .where = command, .sys_errno = code});
}

}  // namespace

Result<Eal> Eal::start(const EalOptions& options, EalLog log) {
  if (started_once.exchange(true))
    return fail(ErrorCode::kSystem, "DPDK was started before in this process; it starts once per process");
  const auto give_up = [](Error error) {
    delete std::exchange(the_log, nullptr);
    started_once = false;
    return tl::unexpected<Error>(std::move(error));
  };
  const std::vector<std::uint16_t> allowed = usable_cpus();
  if (auto right = check_cores(options, allowed); !right) return give_up(std::move(right.error()));
  std::string warning;
  const auto hugepages = decide_hugepages(options, warning);
  if (!hugepages) return give_up(hugepages.error());
  the_log = new DpdkLog(std::move(log));
  if (!warning.empty()) the_log->line(RTE_LOG_WARNING, warning);
  if (auto done = initialise(options, *hugepages, list_of(allowed)); !done)
    return give_up(std::move(done.error()));
  return Eal(*hugepages);
}

Eal::Eal(Eal&& other) noexcept : hugepages_(other.hugepages_), owner_(std::exchange(other.owner_, false)) {}

// `started_once` stays: DPDK 22.11 cannot be started again in the same process. With a memif there is no cleanup:
// it removes the devices and unmaps their records under EAL's interrupt thread, which goes on running. What
// there is to clean up, memory and file descriptors, goes with the process.
Eal::~Eal() {
  if (!owner_) return;
  // EAL's interrupt thread lives on after a memif, and may be about to log: the_log stays.
  if (memif_was_opened()) {
    rte_openlog_stream(nullptr);
    return;
  }
  rte_eal_cleanup();
  delete std::exchange(the_log, nullptr);
}

int Eal::node(std::size_t core) noexcept {
  return rte_lcore_is_enabled(lcore(core)) != 0 ? static_cast<int>(rte_lcore_to_socket_id(lcore(core)))
                                                : SOCKET_ID_ANY;
}

namespace {

thread_local HeardErrors* listening = nullptr;

}  // namespace

DpdkLog::DpdkLog(EalLog log) : log_(std::move(log)) {
  cookie_io_functions_t functions{};
  functions.write = [](void* self, const char* bytes, std::size_t count) {
    static_cast<DpdkLog*>(self)->take({bytes, count});
    return static_cast<ssize_t>(count);
  };
  stream_ = fopencookie(this, "w", functions);
  if (stream_ != nullptr) rte_openlog_stream(stream_);
}

DpdkLog::~DpdkLog() {
  if (stream_ == nullptr) return;
  rte_openlog_stream(nullptr);
  static_cast<void>(std::fclose(stream_));
}

// DPDK flushes after each message, on the thread that logs; a message may be a part of a line or several.
void DpdkLog::take(std::string_view text) {
  const int current = rte_log_cur_msg_loglevel();
  const auto level = static_cast<std::uint32_t>(current < 0 ? RTE_LOG_INFO : static_cast<unsigned>(current));
  std::string lines;
  {
    const std::lock_guard lock(mutex_);
    unfinished_ += text;
    const std::size_t end = unfinished_.rfind('\n');
    if (end == std::string::npos) return;
    lines = unfinished_.substr(0, end);
    unfinished_.erase(0, end + 1);
  }
  for (std::string_view rest = lines; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) line(level, rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void DpdkLog::line(std::uint32_t level, std::string_view text) {
  if (listening != nullptr && level <= RTE_LOG_ERR) {
    std::string& lines = listening->lines_;
    if (!lines.empty()) lines += "; ";
    lines += text;
  }
  if (log_) log_(level, text);
}

HeardErrors::HeardErrors() : outer_(std::exchange(listening, this)) {}

HeardErrors::~HeardErrors() { listening = outer_; }

std::string HeardErrors::text() const { return lines_.empty() ? "" : "; DPDK says: " + lines_; }

namespace {

bool asked(const EalOptions& options, std::string_view word) {
  return std::ranges::find(options.extra, word) != options.extra.end();
}

// Data core i is lcore i + 1. The main lcore, control, floats; so does everything when nothing is pinned.
std::string lcores(const EalOptions& options, std::string_view allowed_cpus) {
  const std::string floating = "@(" + std::string(allowed_cpus) + ')';
  std::string words = '0' + floating;
  for (std::size_t i = 0; i < options.cores.size(); ++i) {
    words += ',' + std::to_string(i + 1);
    words += options.pinned ? '@' + std::to_string(options.cores[i]) : floating;
  }
  return words;
}

}  // namespace

std::vector<std::string> eal_arguments(const EalOptions& options, bool hugepages,
                                       std::string_view allowed_cpus) {
  std::vector<std::string> words{options.program, "--file-prefix", "tally-" + options.instance};
  // --in-memory: hugepages without files, so that nothing stays behind whatever happens to the process.
  // Without hugepages DPDK 22.11 refuses it; then no shared configuration is written instead.
  if (hugepages) {
    words.emplace_back("--in-memory");
  } else {
    words.insert(words.end(), {"--no-huge", "--no-shconf"});
  }
  constexpr std::uint64_t kMebibyte = 1 << 20;
  words.insert(words.end(), {"-m", std::to_string((options.memory_bytes + kMebibyte - 1) / kMebibyte)});
  words.emplace_back("--iova-mode=va");
  if (!asked(options, "--telemetry")) words.emplace_back("--no-telemetry");
  if (options.pci.empty()) words.emplace_back("--no-pci");
  for (const std::string& address : options.pci) words.insert(words.end(), {"-a", address});
  words.insert(words.end(), {"--lcores", lcores(options, allowed_cpus)});
  words.insert(words.end(), options.extra.begin(), options.extra.end());
  return words;
}

namespace {

std::uint64_t number_in(const std::filesystem::path& file) {
  std::uint64_t n = 0;
  std::ifstream in(file);
  in >> n;
  return in.fail() ? 0 : n;
}

std::uint64_t usual_size(const std::filesystem::path& root) {
  std::ifstream in(root / "proc/meminfo");
  for (std::string word; in >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == "Hugepagesize:" && in >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

}  // namespace

Hugepages hugepages_of(const std::filesystem::path& root) {
  Hugepages found;
  const std::uint64_t usual = usual_size(root);
  std::error_code ignored;
  constexpr std::string_view kStart = "hugepages-";  // hugepages-2048kB
  for (const auto& entry : std::filesystem::directory_iterator(root / "sys/kernel/mm/hugepages", ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kStart)) continue;
    HugepageSize size;
    std::from_chars(name.data() + kStart.size(), name.data() + name.size(), size.bytes);
    size.bytes <<= 10;
    size.reserved = number_in(entry.path() / "nr_hugepages");
    size.free = number_in(entry.path() / "free_hugepages");
    found.free_bytes += size.bytes * size.free;
    if (size.bytes == usual) found.usual = size;
  }
  return found;
}

bool hugepages_mappable() {
  const std::uint64_t bytes = usual_size("/");
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
  if (page == MAP_FAILED) return false;
  munmap(page, bytes);
  return true;
}

std::string reserve_command(const Hugepages& now, std::uint64_t bytes) {
  if (now.usual.bytes == 0) return "this kernel has no hugepages: set dataplane.hugepages to off";
  const std::uint64_t missing = bytes > now.free_bytes ? bytes - now.free_bytes : 0;
  const std::uint64_t pages = now.usual.reserved + (missing + now.usual.bytes - 1) / now.usual.bytes;
  return "sudo sysctl -w vm.nr_hugepages=" + std::to_string(pages);
}

namespace {

constexpr const char* kVariable = "RUNTIME_DIRECTORY";
constexpr std::string_view kDirectoryStart = "tally-eal-";  // tally-eal-PID-XXXXXX

// Of other users' directories the removal fails.
void remove_left_behind(const std::filesystem::path& parent) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(kDirectoryStart)) continue;
    pid_t pid = 0;
    const char* const end = name.data() + name.size();
    const auto [next, error] = std::from_chars(name.data() + kDirectoryStart.size(), end, pid);
    if (error != std::errc{} || next == end || *next != '-' || pid <= 0) continue;
    if (kill(pid, 0) != 0 && errno == ESRCH) std::filesystem::remove_all(entry.path(), ignored);
  }
}

}  // namespace

RuntimeDirectory::RuntimeDirectory(const std::filesystem::path& parent) {
  if (getenv(kVariable) != nullptr) return;
  remove_left_behind(parent);
  std::string path =
      (parent / (std::string(kDirectoryStart) + std::to_string(getpid()) + "-XXXXXX")).string();
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

}  // namespace tally::dpdk
