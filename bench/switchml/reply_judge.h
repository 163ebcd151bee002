#pragma once
// Whether a switch's replies are right, byte by byte: it sees what all members of a session send, adds that
// up by itself and knows each frame that may come back. Pure. Owner: one thread.
//
// A result: Ethernet and IPv4 from the switch to the member (ihl 5, tos 0, id 0, fragment 0, TTL 64, its
// checksum right), UDP from the port that the member sent to, to the one it sent from, checksum 0; message
// type and size; job, tsi and pool_index of the chunk; maxima of both exponents; sums that wrap around; and
// nothing behind them.

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "stock_frame.h"

namespace tally::stock {

class ReplyJudge {
 public:
  // members: by rank, at most 64.
  ReplyJudge(std::vector<StockAddresses> members, std::uint16_t payload);

  // A request as it leaves its sender, whatever becomes of it then. Of a chunk the first one of each rank
  // counts; those of a chunk older than the newest at its pool_index are repeats that come too late, and
  // count for nothing.
  void sent(std::size_t rank, std::span<const std::byte> frame);
  // Empty: the reply is right. Else what is wrong, for people.
  [[nodiscard]] std::string judge(std::size_t rank, std::span<const std::byte> frame);

 private:
  struct Chunk {
    std::uint8_t job = 0;
    std::uint32_t tsi = 0;
    std::uint64_t ranks = 0;  // that have sent
    std::int8_t e0 = INT8_MIN, e1 = INT8_MIN;
    std::vector<std::uint32_t> sums{};
    std::vector<std::uint16_t> ports{};  // by rank, from which it was sent
  };
  // Both sets of a slot are two: newest last. The one before it may still be asked for while it is replaced.
  using History = std::deque<Chunk>;

  [[nodiscard]] Chunk* chunk_of(const StockHeader& h, bool make);
  void expect(std::size_t rank, const Chunk& chunk, std::uint16_t pool_index, std::span<std::byte> out) const;

  std::vector<StockAddresses> members_;
  std::uint16_t payload_;
  std::unordered_map<std::uint16_t, History> chunks_;  // by pool_index
  std::vector<std::byte> expected_;
};

}  // namespace tally::stock
