// Memory of the engine: taken when a job or an operation begins, none for a chunk.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <numeric>

#include "engine_testbed.h"

namespace {

std::uint64_t allocations = 0;
bool counting = false;

void* counted(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Of the whole program; those that align are used by nothing here.
void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tally::testbed {
namespace {

constexpr std::uint64_t kChunks = 5'000;

// The box answers each contribution at once; only what the engine does is counted.
class MemoryTest : public ::testing::Test {
 protected:
  MemoryTest()
      : engine_(joined_engine(box_, options_of(box_.shape, 0))), room_(engine_->max_datagram_bytes()) {}

  std::size_t transmit(std::uint16_t& port) {
    counting = true;
    const std::size_t bytes = engine_->transmit(room_, ++now_, port);
    counting = false;
    return bytes;
  }
  void receive(const Bytes& datagram) {
    counting = true;
    engine_->receive(datagram, ++now_);
    counting = false;
  }
  // Sends what may be sent and answers it, the newest first or the oldest first. False: nothing was sent.
  bool exchange(bool newest_first) {
    std::vector<Bytes> answers;
    std::uint16_t port = 0;
    while (const std::size_t n = transmit(port)) {
      const Bytes datagram(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(n));
      if (header_of(datagram).type == PacketType::kContribute) answers.push_back(box_.result_of(datagram));
    }
    if (newest_first) std::reverse(answers.begin(), answers.end());
    for (const Bytes& answer : answers) receive(answer);
    return !answers.empty();
  }
  // The allocations that it took from the first chunk to the completion.
  template <class T>
  std::uint64_t run(std::vector<T>& values, bool newest_first) {
    EXPECT_TRUE(engine_->allreduce(std::span<T>(values), now_).has_value());
    allocations = 0;
    while (exchange(newest_first)) {
    }
    const auto done = engine_->next_completion();
    EXPECT_TRUE(done && done->result.has_value());
    return allocations;
  }

  Box box_{JobShape{.window = 64, .largest_window = 64, .lookahead = 64}};
  std::unique_ptr<engine::WorkerEngine> engine_;
  Bytes room_;
  TimeNs now_ = 0;
};

// What remains when an operation is over: it is told to the program.
constexpr std::uint64_t kOfAnEnd = 4;

TEST_F(MemoryTest, AChunkTakesNoneWhateverItsTypeAndTheOrderOfResults) {
  std::vector<float> floats(kChunks * box_.shape.elements);
  std::iota(floats.begin(), floats.end(), -1000.0F);
  std::vector<std::int32_t> integers(kChunks * box_.shape.elements);
  std::iota(integers.begin(), integers.end(), -1000);
  for (const bool newest_first : {false, true}) {
    EXPECT_LE(run(floats, newest_first), kOfAnEnd) << kChunks << " chunks of float";
    EXPECT_LE(run(integers, newest_first), kOfAnEnd) << kChunks << " chunks of int32";
  }
  EXPECT_GE(engine_->statistics().results, 4 * kChunks);
}

TEST_F(MemoryTest, TheCountIsOne) {
  counting = true;
  allocations = 0;
  { const std::vector<int> some(100); }
  counting = false;
  EXPECT_EQ(allocations, 1U);
}

}  // namespace
}  // namespace tally::testbed
