#pragma once
// Phase 1: what a job can reach when only its boxes, its servers and its hosts' own links bind, in closed form.
// Rates are in Gbit/s; a result is what every worker sends.

#include <cstdint>
#include <span>

#include "planner/job.h"

namespace tally::planner {

// Any worker may use any box. ingress: of all servers together; boxes: likewise; nic: of the slowest worker. If every
// server has its part of the gradient by what it can merge, no plan reaches more, whatever the links are.
[[nodiscard]] double any_box_rate(double workers, double ingress, double boxes, double nic);
// Every box merges only the workers of its own rack; of what is over they send to the servers directly. The root f of
// W f - sum over racks (W_r - 1) min(C_r / W_r, f) = ingress, not above nic.
struct RackOfBox {
  double workers = 0;
  double box = 0;  // 0: it has none
};
[[nodiscard]] double rack_local_rate(std::span<const RackOfBox> racks, double ingress, double nic);

// Slot memory as a rate: `here` workers reach a box that gives them `slots` of `slot_bytes` of values, each taken for
// `seconds`: the round trip and how far workers are apart.
[[nodiscard]] double memory_rate(double here, std::uint64_t slots, double slot_bytes, double seconds);
// How many slots carry `rate`, of what the box takes in of all workers here: the inverse.
[[nodiscard]] std::uint64_t slots_for(double rate, double here, double slot_bytes, double seconds);

// Of a job: the bound that no plan exceeds, whatever the servers' shares are, and what own racks give if links between
// switches never bind.
[[nodiscard]] double upper_bound(const Topology& topology, const Party& party, const Rates& capacity);
// The same if boxes of `boxes` Gbit/s together are all that is used.
[[nodiscard]] double upper_bound(const Topology& topology, const Party& party, const Rates& capacity,
                                 double boxes);
[[nodiscard]] double rack_local_rate(const Topology& topology, const Party& party, const Rates& capacity);

}  // namespace tally::planner
