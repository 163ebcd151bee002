#pragma once
// The switch as the original's description has it: per slot and set a bitmap, a sum and the maxima of two
// exponents. Contributing to one set releases the worker's bit in the other. Empty bitmap: write. New bit:
// add, wrapping around. Last bit: the result to all members, the sender too. A bit that is set: the stored
// result to the sender if the slot is complete, else nothing. It never looks at job_number and tsi, and is
// exact on paths that keep the order of frames only.

#include <cstdint>
#include <span>
#include <vector>

#include "client_switch.h"
#include "stock_frame.h"

namespace tally::stock {

struct OriginalCounters {
  std::uint64_t added = 0, completed = 0, repeated = 0;
  std::uint64_t duplicates = 0;  // of incomplete slots
  std::uint64_t strangers = 0;   // frames that are not the session's
};

class OriginalSwitch : public ClientSwitch {
 public:
  // members: by rank, at most 32. slots: of each set.
  OriginalSwitch(std::vector<StockAddresses> members, std::uint16_t payload, std::uint16_t slots);

  void receive(std::size_t rank, std::span<const std::byte> frame, TimeNs now,
               const Deliver& deliver) override;
  [[nodiscard]] const OriginalCounters& counters() const noexcept { return counters_; }

 private:
  struct Slot {
    std::uint32_t bitmap = 0;
    bool complete = false;
    std::int8_t e0 = 0, e1 = 0;
    std::vector<std::uint32_t> sums{};
    std::vector<std::uint16_t> ports{};  // by rank
  };

  [[nodiscard]] bool ours(std::size_t rank, std::span<const std::byte> frame) const noexcept;
  void add(Slot& slot, std::uint32_t bit, const StockHeader& h,
           std::span<const std::byte> payload) const noexcept;
  void answer(std::size_t rank, const Slot& slot, const StockHeader& asked, const Deliver& deliver);

  std::vector<StockAddresses> members_;
  std::uint16_t payload_;
  std::vector<Slot> sets_[2];
  std::vector<std::byte> frame_;
  OriginalCounters counters_{};
};

}  // namespace tally::stock
