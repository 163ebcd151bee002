#include <algorithm>

#include "eal.h"

namespace tally {
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

}  // namespace tally
