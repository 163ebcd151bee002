#include "loop_eal.h"

#include <cstdio>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "eal.h"

#include <rte_log.h>
#include <rte_mbuf.h>

namespace tally::e2e {
namespace {

struct Environment {
  Environment() {
    EalOptions options;
    options.program = "tally_loop_test";
    options.instance = "loop_test";
    options.cores.assign(kDataCores, 0);
    options.pinned = false;
    options.memory_bytes = 128 << 20;
    options.hugepages = EalOptions::Hugepages::kOff;
    auto started = Eal::start(options, [](std::uint32_t level, std::string_view line) {
      if (level <= RTE_LOG_WARNING)
        std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    });
    if (started) {
      eal.emplace(std::move(*started));
    } else {
      error = started.error().text();
    }
  }
  std::optional<Eal> eal;
  std::string error;
};

}  // namespace

const std::string& start_eal() {
  static const Environment environment;
  return environment.error;
}

std::string audit(rte_mempool* pool) {
  const std::string name = std::string("pool ") + pool->name + ": ";
  if (const unsigned n = rte_mempool_in_use_count(pool); n != 0)
    return name + std::to_string(n) + " mbufs did not come back";
  if (pool->cache_size != 0) return {};  // what other lcores' caches hold is out of reach here
  std::vector<rte_mbuf*> all;
  while (rte_mbuf* m = rte_pktmbuf_alloc(pool)) all.push_back(m);
  const std::set<rte_mbuf*> distinct(all.begin(), all.end());
  std::string wrong;
  if (all.size() != pool->size || distinct.size() != all.size()) {
    wrong = name + std::to_string(all.size()) + " mbufs, " + std::to_string(distinct.size()) +
            " of them distinct, in a pool of " + std::to_string(pool->size);
  }
  for (rte_mbuf* m : distinct) rte_pktmbuf_free(m);
  return wrong;
}

}  // namespace tally::e2e
