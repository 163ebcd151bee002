#pragma once
// Contributions, for every bench that sends some: the job they belong to, the headers of each, and values
// that tell their sums by the header in front of them. Pure.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "kernels/kernels.h"
#include "tally/mix64.h"
#include "tally/wire.h"

namespace tally::bench {

inline constexpr std::uint32_t kBenchWindow = 256;

// The job, as control would publish it: members 10.0.0.1 ... with one MAC each, spread over the ports in
// turn. Jobs alike with ids 1, 2, ... lie one behind the other.
struct JobShape {
  std::uint8_t world = 8;
  std::uint16_t elements = 256;
  ResultsMode results = ResultsMode::kUnicast;
  std::uint8_t ports = 1;  // rank r is behind port r mod ports
  std::uint16_t id = 1;
  std::uint32_t window = kBenchWindow;
  bool sparse = false;  // whose members may leave zeros out
};

[[nodiscard]] inline jobs::Box job_box() {
  return {.mac = {2, 0, 0, 0, 0, 1}, .ipv4 = {10, 0, 0, 254}, .ipv6 = {}};
}

[[nodiscard]] inline jobs::NativeJob make_job(const JobShape& shape) {
  jobs::NativeJob job;
  job.id = JobId{shape.id};
  job.epoch = Epoch{1};
  job.generation = Generation{0x5eecU + shape.id};
  job.result_cookie = Cookie{0xc00c1e};
  job.results = shape.results;
  job.world = shape.world;
  job.elements = shape.elements;
  job.sparse = shape.sparse;
  job.window = shape.window;
  job.span = 2 * shape.window;
  job.members = members_of(shape.world);
  if (shape.results == ResultsMode::kMulticast) job.leaders = members_of(shape.ports);
  const std::uint32_t lines = jobs::pool_lines(shape.window, 1, shape.elements);
  job.slots = {(shape.id - 1U) * lines, lines};
  for (std::uint16_t r = 0; r < shape.world; ++r) {
    jobs::Member& m = job.ranks[r];
    m.cookie = Cookie{mix64(r + 1U)};
    m.key = rank_key(job.generation, Rank{r});
    m.binding.address = mapped({10, 0, 0, static_cast<std::uint8_t>(r + 1)});
    m.binding.mac = {2, 0, 0, 0, 1, static_cast<std::uint8_t>(r)};
    m.binding.udp_port = 4000;
    m.binding.port = PortIndex{static_cast<std::uint16_t>(r % shape.ports)};
    job.key_sum += m.key;
  }
  return job;
}

// What all contributions of one rank have in common.
struct Contributor {
  JobId job{};
  Rank rank{};
  Epoch epoch{};
  Cookie cookie{};
  std::uint32_t key = 0;
  SlotMap slots{};
  std::uint32_t shards = 1;
  std::uint16_t elements = 0;
  std::uint32_t total = 0;  // elements of the operation
  Dtype dtype = Dtype::kInt32;
  std::uint8_t priority = 0;
};

// The protocol's header of one rank's contributions: what does not change from chunk to chunk is made once.
// Each that is written is a new sending.
class ContributionHeader {
 public:
  explicit ContributionHeader(const Contributor& from) noexcept;

  // values: their plain sums, without the rank's key. datagram: kHeaderBytes or more, the values behind them.
  void write(std::span<std::byte> datagram, Chunk chunk, kernels::Sums values, std::int8_t exponent,
             std::uint8_t flags, const kernels::Kernels& kernels) noexcept;

 private:
  Header header_;
  std::uint32_t key_;
  SlotMap slots_;
  std::uint32_t shards_;
  std::array<std::uint32_t, kMaxShards> sequences_{};  // of each shard's newest
};

// The headers of a member's frames, untagged IPv4 as a port would hand them over: the checksum of IP is 0.
class MemberFrames {
 public:
  static constexpr std::size_t kHeaders = 98;  // Ethernet, IPv4, UDP, ours

  MemberFrames(const jobs::NativeJob& job, std::uint16_t rank, const jobs::Box& box) noexcept;
  void write(std::span<std::byte, kHeaders> out, Chunk chunk, kernels::Sums values,
             const kernels::Kernels& kernels) noexcept;

 private:
  std::array<std::byte, kHeaders - kHeaderBytes> outer_{};
  ContributionHeader header_;
};

// Members stream the same chunks, each so many behind the one before: 32 packets with 8 members.
inline constexpr std::uint32_t kSkewChunks = 4;

// `elements` values as on the wire: value_of(k), an int32, is the k-th.
template <class ValueOf>
void write_values(std::byte* values, std::size_t elements, const ValueOf& value_of) noexcept {
  for (std::size_t k = 0; k < elements; ++k) {
    const Be<std::int32_t> value{value_of(k)};
    std::memcpy(values + 4 * k, &value, sizeof value);
  }
}
[[nodiscard]] inline std::uint32_t value_at(const std::byte* values, std::size_t k) noexcept {
  std::uint32_t big = 0;
  std::memcpy(&big, values + 4 * k, sizeof big);
  return __builtin_bswap32(big);
}

// In front of values that nobody has sent: a PROBE that tells their sums to plain_sums().
void write_sums(std::byte* datagram, kernels::Sums values) noexcept;
// The plain sums of the values behind this header of `job`: of what was sent, of the RESULT that replaced it,
// or as write_sums() left them.
[[nodiscard]] kernels::Sums plain_sums(const jobs::NativeJob& job, const Header& header) noexcept;

}  // namespace tally::bench
