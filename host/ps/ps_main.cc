// tally-ps: a parameter server in a process of its own.

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "interrupt_watch.h"
#include "kernels.h"
#include "ps_command_line.h"
#include "ps_run.h"
#include "tally/mix64.h"
#include "transport.h"

namespace tally {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;

// The transport speaks of the variables of a worker.
std::string option_of(const std::string& where) {
  constexpr std::array<std::pair<const char*, const char*>, 4> kOptions{{{"TALLY_SWITCH", "--box"},
                                                                         {"TALLY_ADDRESS", "--address"},
                                                                         {"TALLY_MTU", "--mtu"},
                                                                         {"TALLY_TRANSPORT", "--transport"}}};
  for (const auto& [variable, option] : kOptions) {
    if (where == variable) return option;
  }
  return where;
}

int complain(Error error) {
  error.where = option_of(error.where);
  std::fprintf(stderr, "tally-ps: %s\n", error.text().c_str());
  if (error.code != ErrorCode::kInvalidArgument) return kFailed;
  std::fputs("Try 'tally-ps --help'.\n", stderr);
  return kUsage;
}

Result<std::uint64_t> random_word() {
  std::uint64_t word = 0;
  while (word == 0) {
    if (getrandom(&word, sizeof word, 0) == sizeof word || errno == EINTR) continue;
    const int why = errno;
    return tl::unexpected(Error{
        ErrorCode::kSystem, std::string("no random numbers: getrandom: ") + std::strerror(why), {}, why});
  }
  return word;
}

// The same each time that a server is started with these options: the box lets it take its own place again at
// once, without a new epoch, if it comes from where it was.
std::uint64_t identity_of(const PsSettings& settings) {
  std::uint64_t word = 1;
  const auto take = [&word](const std::string& text) {
    for (const char c : text) word = mix64(word * 257 + static_cast<unsigned char>(c));
    word = mix64(word);
  };
  take(settings.address);
  take(settings.transport);
  // Several servers of one machine differ in nothing else over udp.
  for (const PsJobOptions& job : settings.jobs) take(job.job + ":" + std::to_string(job.index));
  return word == 0 ? 1 : word;
}

Result<std::unique_ptr<PsEngine>> make_engine(const PsSettings& settings, std::uint16_t most) {
  const auto instance = random_word();
  if (!instance) return tl::unexpected(instance.error());
  const auto seed = random_word();
  if (!seed) return tl::unexpected(seed.error());
  PsOptions options;
  options.jobs = settings.jobs;
  options.elements = settings.elements == 0 ? most : std::min(settings.elements, most);
  options.instance = *instance;
  options.seed = *seed;
  options.memory = settings.memory;
  return PsEngine::create(options, best_kernels());
}

int serve(const PsSettings& settings) {
  // First, so that every thread of DPDK has the signals blocked.
  std::atomic<PsRun*> running = nullptr;
  std::optional<InterruptWatch> watch;
  watch.emplace([&running](int signal) {
    if (PsRun* const run = running)
      run->stop();
    else
      _exit(128 + signal);
  });
  auto transport = make_transport(settings.transport, {.box = settings.box,
                                                       .address = settings.address,
                                                       .mtu = settings.mtu,
                                                       .poll = settings.poll,
                                                       .identity = identity_of(settings)});
  if (!transport) return complain(transport.error());
  auto engine = make_engine(settings, (*transport)->most_elements());
  if (!engine) return complain(engine.error());
  PsRun run(std::move(*transport), std::move(*engine), settings);
  running = &run;
  const auto ended = run.run();
  watch.reset();  // before what it stops is gone
  return ended ? 0 : complain(ended.error());
}

int start(int argc, char** argv) {
  auto parsed = parse_ps_command_line(argc, argv);
  if (!parsed) return complain(parsed.error());
  if (const auto* text = std::get_if<PsText>(&*parsed)) {
    std::fputs(text->text.c_str(), stdout);
    return 0;
  }
  return serve(std::get<PsSettings>(*parsed));
}

}  // namespace
}  // namespace tally

int main(int argc, char** argv) {
  try {
    return tally::start(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "tally-ps: %s\n", e.what());
    return 1;
  }
}
