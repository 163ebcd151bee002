#pragma once
// What stands at the other end of SwitchML clients in a test: frames in, frames out. The switch of the
// original's rules is one (original_switch.h), the product's pipeline another.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "tally/time.h"

namespace tally::stock {

class ClientSwitch {
 public:
  // A frame for a member, by its rank; valid during the call.
  using Deliver = std::function<void(std::size_t rank, std::span<const std::byte> frame)>;

  virtual ~ClientSwitch() = default;
  // A frame as the member sent it.
  virtual void receive(std::size_t rank, std::span<const std::byte> frame, TimeNs now,
                       const Deliver& deliver) = 0;
};

}  // namespace tally::stock
