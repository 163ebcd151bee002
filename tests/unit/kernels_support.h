#pragma once
// What the kernel tests share: buffers that notice a touch outside, values, and naive definitions that do not
// use the kernels' code.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "tally/wire.h"

namespace tally {

namespace kernels {
inline void PrintTo(const Sums& sums, std::ostream* out) { *out << sums.sum1 << '/' << sums.sum2; }
}  // namespace kernels

using Values = std::vector<std::int32_t>;

// `bytes` bytes at `offset` after a multiple of 64, between guard bytes.
class Guarded {
 public:
  Guarded(std::size_t bytes, std::size_t offset)
      : bytes_(bytes), store_(bytes + offset + 3 * kGuard, kPattern), offset_(offset) {
    const auto base = reinterpret_cast<std::uintptr_t>(store_.data());
    offset_ += kGuard + (kGuard - base % kGuard) % kGuard;
  }
  std::byte* data() { return store_.data() + offset_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  [[nodiscard]] bool intact() const {
    const auto untouched = [](std::byte b) { return b == kPattern; };
    const auto begin = store_.begin() + static_cast<std::ptrdiff_t>(offset_);
    return std::all_of(store_.begin(), begin, untouched) &&
           std::all_of(begin + static_cast<std::ptrdiff_t>(bytes_), store_.end(), untouched);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kPattern{0xa5};
  std::size_t bytes_;
  std::vector<std::byte> store_;
  std::size_t offset_;
};

// Memory that ends (or begins) at a page nobody may touch, so that a read outside faults too.
class Fenced {
 public:
  enum class Fence { kBehind, kBefore };

  Fenced(std::size_t bytes, Fence fence) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    const std::size_t room = (bytes + page_ - 1) / page_ * page_;
    size_ = room + 2 * page_;
    base_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page_, PROT_NONE);
    mprotect(base_ + size_ - page_, page_, PROT_NONE);
    data_ = fence == Fence::kBefore ? base_ + page_ : base_ + page_ + room - bytes;
  }
  ~Fenced() { munmap(base_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::size_t page_;
  std::size_t size_;
  std::byte* base_;
  std::byte* data_;
};

// A third of each: any int32, small ones, and the ones at which something wraps.
inline Values some_values(std::mt19937_64& random, std::size_t n) {
  constexpr std::int32_t kExtremes[] = {INT32_MIN, INT32_MIN + 1, -1, 0, 1, INT32_MAX - 1, INT32_MAX};
  Values values(n);
  for (auto& value : values) {
    const std::uint64_t bits = random();
    if (bits % 3 == 0) value = static_cast<std::int32_t>(bits >> 32);
    if (bits % 3 == 1) value = static_cast<std::int32_t>(bits >> 52) - 2048;
    if (bits % 3 == 2) value = kExtremes[(bits >> 32) % std::size(kExtremes)];
  }
  return values;
}

inline void put_wire(std::byte* wire, const Values& values) {
  for (const std::int32_t value : values)
    for (int shift = 24; shift >= 0; shift -= 8)
      *wire++ = static_cast<std::byte>(static_cast<std::uint32_t>(value) >> shift & 0xff);
}

inline Values wire_values(const std::byte* wire, std::size_t n) {
  Values values(n);
  for (auto& value : values) {
    std::uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits = bits << 8 | std::to_integer<std::uint32_t>(*wire++);
    value = static_cast<std::int32_t>(bits);
  }
  return values;
}

inline kernels::Sums naive_sums(const Values& values) {
  std::uint64_t sum1 = 0;
  std::uint64_t sum2 = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto element = static_cast<std::uint64_t>(std::int64_t{values[i]});
    sum1 += element;
    sum2 += (i + 1) * element;
  }
  return {static_cast<std::uint32_t>(sum1), static_cast<std::uint32_t>(sum2)};
}

// One test per table this CPU can run.
class KernelsTest : public testing::TestWithParam<const kernels::Kernels*> {
 protected:
  const kernels::Kernels& kernels_ = *GetParam();
};

inline std::string kernels_name(const testing::TestParamInfo<const kernels::Kernels*>& info) {
  return std::string(info.param->name);
}

inline auto all_kernels() {
  const auto usable = kernels::usable_kernels();
  return testing::ValuesIn(usable.begin(), usable.end());
}

}  // namespace tally
