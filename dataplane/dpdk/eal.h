#pragma once
// DPDK's environment, started once per process from our configuration. Owner: the control thread, which
// becomes the main lcore; it floats over the CPUs that the process may use.

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tally/error.h"

namespace tally::dpdk {

struct EalOptions {
  std::string program = "tallyd";
  std::string instance = "tally";          // part of EAL's file prefix
  std::vector<std::uint16_t> cores{};      // CPU of each data core: core i is lcore i + 1
  bool pinned = true;                      // false: data cores float like the main lcore (tests)
  std::uint64_t memory_bytes = 512 << 20;  // all of it
  std::optional<bool> hugepages{};         // empty: if enough are free, else with a warning
  std::vector<std::string> pci{};    // addresses for -a; empty: --no-pci. Virtual devices are added by Port
  std::vector<std::string> extra{};  // appended as they are
};

// Takes each line that DPDK logs, and our own warnings about memory; any thread. level: RTE_LOG_*.
using EalLog = std::function<void(std::uint32_t level, std::string_view line)>;

// The words of the command line. hugepages: decided. Pure; unit-tested.
[[nodiscard]] std::vector<std::string> eal_arguments(const EalOptions& options, bool hugepages,
                                                     std::string_view allowed_cpus);

class Eal {
 public:
  // Errors say what to do: hugepages (the command that reserves them), permissions (which), a CPU that does
  // not exist or is not allowed, a second start in this process.
  [[nodiscard]] static Result<Eal> start(const EalOptions& options, EalLog log);
  Eal(Eal&& other) noexcept;
  Eal& operator=(Eal&&) = delete;
  ~Eal();  // rte_eal_cleanup; every lcore must have returned

  [[nodiscard]] bool hugepages() const noexcept { return hugepages_; }
  // lcore of data core i.
  [[nodiscard]] static unsigned lcore(std::size_t core) noexcept { return static_cast<unsigned>(core) + 1; }
  // NUMA node of data core i; SOCKET_ID_ANY: there is no such lcore.
  [[nodiscard]] static int node(std::size_t core) noexcept;

 private:
  explicit Eal(bool hugepages) noexcept : hugepages_(hugepages) {}
  bool hugepages_ = false;
  bool owner_ = true;
};

// DPDK's log, line by line.

// Where DPDK writes from now on, until it is destroyed: give it to rte_openlog_stream() before
// rte_eal_init().
class DpdkLog {
 public:
  explicit DpdkLog(EalLog log);
  DpdkLog(const DpdkLog&) = delete;
  DpdkLog& operator=(const DpdkLog&) = delete;
  ~DpdkLog();

  void line(std::uint32_t level, std::string_view text);

 private:
  void take(std::string_view text);

  std::mutex mutex_;  // of unfinished_; libraries log from any thread
  std::string unfinished_;
  EalLog log_;
  std::FILE* stream_ = nullptr;
};

// Collects what DPDK reports as an error on this thread while it lives: the reason that a return code of -1
// does not tell.
class HeardErrors {
 public:
  HeardErrors();
  HeardErrors(const HeardErrors&) = delete;
  HeardErrors& operator=(const HeardErrors&) = delete;
  ~HeardErrors();

  // "; DPDK says: ..." or nothing.
  [[nodiscard]] std::string text() const;

 private:
  HeardErrors* outer_;
  std::string lines_;
  friend class DpdkLog;
};

// The kernel's hugepages: which there are, whether this process may map them, what to do if there are too
// few.

struct HugepageSize {
  std::uint64_t bytes = 0;     // of one page
  std::uint64_t reserved = 0;  // pages
  std::uint64_t free = 0;      // pages
};

struct Hugepages {
  std::uint64_t free_bytes = 0;  // of every size
  HugepageSize usual{};          // the kernel's default size, which vm.nr_hugepages reserves; 0 bytes: none
};

// root: / ; another one in tests.
[[nodiscard]] Hugepages hugepages_of(const std::filesystem::path& root = "/");

// The CPUs that this process may use.
[[nodiscard]] std::vector<std::uint16_t> usable_cpus();

// Whether to use hugepages; `warning` says why not, where ordinary memory will do. An error: they must be used.
[[nodiscard]] Result<bool> decide_hugepages(const EalOptions& options, std::string& warning);

// Whether a free hugepage can be mapped by this process: containers and control groups may forbid it.
[[nodiscard]] bool hugepages_mappable();

// The command that makes `bytes` available, given what is reserved now.
[[nodiscard]] std::string reserve_command(const Hugepages& now, std::uint64_t bytes);

// The directory that EAL makes at its start even when it puts nothing into it; for an ordinary user by
// default below /tmp/dpdk, which may be another user's. Ours is private, and gone as soon as EAL has started.

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

}  // namespace tally::dpdk
