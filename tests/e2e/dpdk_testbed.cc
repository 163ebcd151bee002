#include "dpdk_testbed.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "dpdk/eal.h"
#include "tally/check.h"

namespace tally::e2e {
namespace {

std::mutex lines_mutex;
std::vector<std::string> lines;

[[noreturn]] void skip_all() {
  std::printf("skipped: 96 MiB of hugepages are not free (make test reserves them as root)\n");
  std::fflush(stdout);
  _exit(77);
}

// One EAL for all tests of the program.
class EalEnvironment : public testing::Environment {
 public:
  void SetUp() override {
    dpdk::EalOptions options{.program = "tally_dpdk_port_test",
                             .instance = "test",
                             .pinned = false,
                             .memory_bytes = 256 << 20,
                             .hugepages = false};
    if (std::getenv("TALLY_TEST_HUGEPAGES") != nullptr) {
      options.memory_bytes = 96 << 20;
      options.hugepages = true;
      if (dpdk::hugepages_of().free_bytes < options.memory_bytes) skip_all();
    }
    auto eal = dpdk::Eal::start(options, [](std::uint32_t, std::string_view line) {
      const std::lock_guard lock(lines_mutex);
      lines.emplace_back(line);
    });
    ASSERT_TRUE(eal) << eal.error().text();
    eal_.emplace(std::move(*eal));
  }
  void TearDown() override { eal_.reset(); }

 private:
  std::optional<dpdk::Eal> eal_;
};

[[maybe_unused]] const testing::Environment* const kEnvironment =
    testing::AddGlobalTestEnvironment(new EalEnvironment);

}  // namespace

std::vector<std::string> logged_lines() {
  const std::lock_guard lock(lines_mutex);
  return lines;
}

dpdk::Pools small_pools(std::uint32_t frames, std::uint32_t heads, std::uint16_t room) {
  static int number = 0;
  const std::string prefix = std::to_string(number++);
  auto pools = make_plain_pools({.frames = frames, .heads = heads, .frame_room = room}, prefix);
  TALLY_CHECK(pools.has_value(), "EAL's memory holds every mempool of the tests");
  return std::move(*pools);
}

rte_mbuf* tagged(rte_mempool* pool, std::uint32_t bytes, std::uint8_t tag, dpdk::MbufCounters& counters) {
  rte_mbuf* m = dpdk::allocate(pool, counters);
  if (m == nullptr) return nullptr;
  TALLY_CHECK(bytes <= rte_pktmbuf_tailroom(m), "the test's frame fits");
  m->data_len = static_cast<std::uint16_t>(bytes);
  m->pkt_len = bytes;
  for (std::uint32_t i = 0; i < bytes; ++i) dpdk::data_of(m)[i] = static_cast<std::byte>(tag + i);
  return m;
}

bool has_tag(const rte_mbuf* m, std::uint32_t from, std::uint8_t tag) {
  std::uint32_t at = 0;
  for (const rte_mbuf* segment = m; segment != nullptr; segment = segment->next) {
    for (std::uint32_t i = 0; i < segment->data_len; ++i, ++at) {
      if (at >= from && dpdk::data_of(segment)[i] != static_cast<std::byte>(tag + at - from)) return false;
    }
  }
  return at == m->pkt_len;
}

std::vector<rte_mbuf*> receive_some(const dpdk::Port& port, std::size_t wanted) {
  std::vector<rte_mbuf*> frames;
  std::array<rte_mbuf*, 32> room{};
  for (int turn = 0; turn < 1000 && frames.size() < wanted; ++turn) {
    for (std::uint16_t q = 0; q < port.traits().receive_queues; ++q) {
      const auto burst = dpdk::receive(port.traits().id, q, room);
      frames.insert(frames.end(), burst.begin(), burst.end());
    }
    if (frames.size() < wanted) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return frames;
}

Scratch::Scratch() {
  std::string path = (std::filesystem::temp_directory_path() / "tally-port-XXXXXX").string();
  TALLY_CHECK(mkdtemp(path.data()) != nullptr, "a temporary directory is made");
  path_ = path;
}

Scratch::~Scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tally::e2e
