#pragma once
// The hosts' stack: Ethernet, VLAN, IP and UDP as a kernel would check them, written apart from the box's.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/worker_join.h"
#include "jobs/binding.h"

namespace tally::e2e {

// The box of all loop tests: both IP versions.
[[nodiscard]] jobs::Box loop_box();

// A member on a port: 10.0.1.rank+1 or fd00::1:rank+1.
[[nodiscard]] jobs::Binding loop_binding(std::uint16_t rank, std::uint16_t vlan, bool ipv6);

// The datagram in `frame` if that is for `self`, or for the group of its job; otherwise nothing (data() is
// null). A frame for it that a kernel would discard puts a sentence into `wrong`.
[[nodiscard]] std::span<const std::byte> unwrap(std::span<const std::byte> frame, const jobs::Binding& self,
                                                const engine::Membership* membership,
                                                std::vector<std::string>& wrong);

// The headers in front of a datagram from `self` to the box.
void wrap_for_box(std::span<std::byte> head, const jobs::Binding& self, std::uint16_t destination_port,
                  std::span<const std::byte> datagram);

}  // namespace tally::e2e
