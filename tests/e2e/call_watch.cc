#include "call_watch.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <utility>

// The one place from which the kernel takes calls of a watched thread: a call with its six arguments, and the
// end of the handler. Aligned, so that it lies within 4 GiB of addresses that begin with the same 32 bits.
asm(R"(
  .pushsection .text
  .balign 128
  .type tally_watched_call, @function
tally_watched_call:
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  mov %r8, %r10
  mov %r9, %r8
  mov 8(%rsp), %r9
  syscall
  ret
  .type tally_watched_return, @function
tally_watched_return:
  mov $15, %eax
  syscall
  ud2
tally_watched_end:
  .popsection
)");
extern "C" long tally_watched_call(long number, long, long, long, long, long, long);
extern "C" void tally_watched_return();
extern "C" const char tally_watched_end[];

namespace tally::e2e {
namespace {

constexpr std::size_t kCalls = 512;
std::array<std::atomic<std::uint64_t>, kCalls> calls;
std::array<std::atomic<std::uint64_t>, static_cast<std::size_t>(WatchedFunction::kCount)> functions;
std::atomic<bool> counting{false};
constinit thread_local bool watched = false;

constexpr std::array<const char*, static_cast<std::size_t>(WatchedFunction::kCount)> kFunctionNames{
    "malloc",
    "calloc",
    "realloc",
    "memalign",
    "free",
    "rte_malloc",
    "rte_free",
    "pthread_mutex",
    "pthread_rwlock",
    "pthread_spin",
    "sem_wait or sem_post"};

// What a data core might be suspected of; others are told by number.
constexpr std::array kCallNames{
    std::pair{SYS_read, "read"},
    std::pair{SYS_write, "write"},
    std::pair{SYS_poll, "poll"},
    std::pair{SYS_ppoll, "ppoll"},
    std::pair{SYS_mmap, "mmap"},
    std::pair{SYS_munmap, "munmap"},
    std::pair{SYS_madvise, "madvise"},
    std::pair{SYS_brk, "brk"},
    std::pair{SYS_futex, "futex"},
    std::pair{SYS_getpid, "getpid"},
    std::pair{SYS_sendto, "sendto"},
    std::pair{SYS_sendmsg, "sendmsg"},
    std::pair{SYS_recvfrom, "recvfrom"},
    std::pair{SYS_recvmsg, "recvmsg"},
    std::pair{SYS_ioctl, "ioctl"},
    std::pair{SYS_sched_yield, "sched_yield"},
    std::pair{SYS_clock_gettime, "clock_gettime"},
    std::pair{SYS_clock_nanosleep, "clock_nanosleep"},
    std::pair{SYS_epoll_wait, "epoll_wait"},
};

std::string name_of(long number) {
  for (const auto& [known, name] : kCallNames)
    if (known == number) return name;
  return "system call " + std::to_string(number);
}

// The call that was trapped, as if it had been let through.
void on_trap(int, siginfo_t* info, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const long number = info->si_syscall;
  if (counting.load(std::memory_order_relaxed))
    calls[static_cast<std::size_t>(number) % kCalls].fetch_add(1, std::memory_order_relaxed);
  registers[REG_RAX] = tally_watched_call(number, registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                                          registers[REG_R10], registers[REG_R8], registers[REG_R9]);
}

// libc's sigaction() would have the handler end in libc, whose calls are trapped.
bool catch_traps() {
  struct {
    void (*handler)(int, siginfo_t*, void*);
    unsigned long flags;
    void (*restorer)();
    std::uint64_t mask;
  } action{on_trap, SA_SIGINFO | 0x04000000UL /* SA_RESTORER */, tally_watched_return, 0};
  return syscall(SYS_rt_sigaction, SIGSYS, &action, nullptr, sizeof action.mask) == 0;
}

}  // namespace

std::string watch_this_thread() {
  const auto failed = [](const char* what) { return std::string(what) + ": " + std::strerror(errno); };
  if (watched) return {};
  if (!catch_traps()) return failed("SIGSYS cannot be caught");
  const auto begin = reinterpret_cast<std::uintptr_t>(tally_watched_call);
  const auto end = reinterpret_cast<std::uintptr_t>(tally_watched_end);
  const auto low = [](std::uintptr_t address) { return static_cast<std::uint32_t>(address); };
  constexpr std::uint32_t kAddress = offsetof(seccomp_data, instruction_pointer);
  std::array filter{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 0, 5),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress + 4),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, low(begin >> 32), 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kAddress),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low(begin), 0, 1),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, low(end), 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("PR_SET_NO_NEW_PRIVS");
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) return failed("seccomp");
  watched = true;
  return {};
}

void count_function(WatchedFunction function) noexcept {
  if (watched && counting.load(std::memory_order_relaxed))
    functions[static_cast<std::size_t>(function)].fetch_add(1, std::memory_order_relaxed);
}

void begin_counting() noexcept {
  for (auto& n : calls) n = 0;
  for (auto& n : functions) n = 0;
  counting = true;
}

std::uint64_t counted_calls(long number) noexcept { return calls[static_cast<std::size_t>(number) % kCalls]; }

WatchedCounts end_counting() {
  counting = false;
  WatchedCounts counts;
  const auto add = [&](const std::string& name, std::uint64_t n) {
    counts.names += (counts.names.empty() ? "" : ", ") + name + " " + std::to_string(n);
  };
  for (std::size_t i = 0; i < kCalls; ++i) {
    counts.system_calls += calls[i];
    if (calls[i] != 0) add(name_of(static_cast<long>(i)), calls[i]);
  }
  for (std::size_t i = 0; i < functions.size(); ++i) {
    (i < static_cast<std::size_t>(kFirstLock) ? counts.allocations : counts.locks) += functions[i];
    if (functions[i] != 0) add(kFunctionNames[i], functions[i]);
  }
  return counts;
}

}  // namespace tally::e2e
