#pragma once
// Frames as hosts send them: a datagram in UDP, IPv4 and Ethernet, from a member to the box.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "pipeline/frame.h"
#include "tally/wire.h"

namespace tally {

using Bytes = std::vector<std::byte>;

// What a contribution says; make_contribution fills in what a correct worker would.
struct ContributionSpec {
  Rank rank{};
  Chunk chunk{};
  std::vector<std::int32_t> values;  // dtype int16: each in 16 bits. With the flag ZERO they are left out
  std::uint8_t flags = 0;
  std::uint8_t dtype = 0;
  std::int8_t exponent = kNoExponent;
  std::uint32_t total = 0;
  std::uint8_t priority = 0;
  std::uint32_t sequence = 0;  // 0: one more than the rank's last one of the epoch and shard, in this process
};

[[nodiscard]] Bytes make_contribution(const jobs::NativeJob& job, const ContributionSpec& spec);
// SPARSE instead of dense, where that is shorter; the same sums.
[[nodiscard]] Bytes made_sparse(Bytes contribution);
// Zeros of the chunks spec.chunk + i x shards, for each bit i of `chunks`. spec.values: as many as each chunk has.
// exponents: of each chunk, whether they are alike or not; empty: the spec's, of all.
[[nodiscard]] Bytes make_zero_run(const jobs::NativeJob& job, const ContributionSpec& spec,
                                  std::uint64_t chunks, const std::vector<std::int8_t>& exponents = {});
// All ranks begin at 1 again: with another box, or the next input of a fuzzer.
void forget_sequences();
// What a server says. type: kResult (values, with the sums of all members), kResend or kFlush (no values).
// ranks: in `contributors`. The server is the chunk's.
[[nodiscard]] Bytes make_server_packet(const jobs::NativeJob& job, PacketType type, Chunk chunk,
                                       std::uint64_t ranks, const std::vector<std::int32_t>& values = {},
                                       std::uint8_t dtype = 0, std::uint8_t flags = 0);
// What the parent of a job of racks says: the RESULT of all racks; and the QUERY of `rack`, for rank `total` of ours.
[[nodiscard]] Bytes make_result_above(const jobs::NativeJob& job, Chunk chunk,
                                      const std::vector<std::int32_t>& values, std::uint8_t dtype = 0,
                                      std::uint8_t flags = 0, std::uint32_t total = 0);
[[nodiscard]] Bytes make_query_above(const jobs::NativeJob& job, Chunk chunk, std::uint16_t rack,
                                     std::uint32_t total);
[[nodiscard]] Bytes make_query(const jobs::NativeJob& job, Rank asker, Chunk chunk, Rank peer);
// Of the box alone.
[[nodiscard]] Bytes make_query(const jobs::NativeJob& job, Rank asker, Chunk chunk);
// The same contribution sent once more, under the next sequence.
[[nodiscard]] Bytes sent_again(const jobs::NativeJob& job, Bytes contribution);
// Recomputes header.check after a field was changed.
void seal(Bytes& datagram);
[[nodiscard]] Header header_of(std::span<const std::byte> datagram);
void set_header(Bytes& datagram, const Header& h);

// from -> box. The frame has no spare room behind it.
[[nodiscard]] Bytes wrap(std::span<const std::byte> datagram, const jobs::Binding& from, const jobs::Box& box,
                         std::uint16_t destination_port);

// A received frame in a buffer with tail room, as a port would deliver it. Mutable: replies are made in
// place.
class ReceivedFrame {
 public:
  ReceivedFrame(std::span<const std::byte> bytes, PortIndex port, bool vouched, std::size_t tail_room = 0);
  [[nodiscard]] pipeline::Frame frame() noexcept;
  [[nodiscard]] const Bytes& buffer() const noexcept { return buffer_; }

 private:
  Bytes buffer_;
  std::uint32_t length_;
  PortIndex port_;
  bool vouched_;
};

}  // namespace tally
