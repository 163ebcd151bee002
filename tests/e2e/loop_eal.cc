#include "loop_eal.h"

#include <cstdio>
#include <optional>
#include <string_view>

#include "dpdk/eal.h"

#include <rte_log.h>
#include <rte_mbuf.h>

namespace tally::e2e {
namespace {

struct Environment {
  Environment() {
    dpdk::EalOptions options;
    options.program = "tally_loop_test";
    options.instance = "loop_test";
    options.cores.assign(kDataCores, 0);
    options.pinned = false;
    options.memory_bytes = 192 << 20;
    options.hugepages = false;
    auto started = dpdk::Eal::start(options, [](std::uint32_t level, std::string_view line) {
      if (level <= RTE_LOG_WARNING)
        std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    });
    if (started) {
      eal.emplace(std::move(*started));
    } else {
      error = started.error().text();
    }
  }
  std::optional<dpdk::Eal> eal;
  std::string error;
};

}  // namespace

const std::string& start_eal() {
  static const Environment environment;
  return environment.error;
}

}  // namespace tally::e2e
