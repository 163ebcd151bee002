#pragma once
// Which box sums what of a job over several boxes, and which of its servers finishes it (docs/protocol_boxes.md).
// A plan holds for one epoch. Chunk numbers fall into 1,024 groups, chunk mod 1,024; for each group every rank has
// one box that it sends to, and the job one server.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "tally/ids.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally {

inline constexpr std::uint32_t kPlanGroups = 1'024;
inline constexpr std::uint32_t kMaxPlanBoxes = 64;
inline constexpr std::uint32_t kMaxPlanTables = 64;

constexpr std::uint32_t plan_group(Chunk chunk) noexcept { return raw(chunk) % kPlanGroups; }

// Where a rank sends the chunks of a group.
struct Route {
  BoxIndex box = 0;
  bool direct = false;  // the box passes them on to the server, and adds nothing

  constexpr bool operator==(const Route&) const noexcept = default;
  [[nodiscard]] constexpr std::uint8_t byte() const noexcept {
    return static_cast<std::uint8_t>(box | (direct ? kDirectBit : 0));
  }
  static constexpr Route of(std::uint8_t byte) noexcept {
    return {static_cast<BoxIndex>(byte & ~kDirectBit & 0xFFU), (byte & kDirectBit) != 0};
  }

 private:
  static constexpr std::uint8_t kDirectBit = 0x80;
};

using RouteTable = std::array<Route, kPlanGroups>;

struct Plan {
  std::vector<Ipv6> boxes;                          // 1..kMaxPlanBoxes, each once; IPv4 as ::ffff:a.b.c.d
  std::uint8_t server_count = 1;                    // 1..kMaxServers
  std::array<std::uint8_t, kPlanGroups> servers{};  // by group, below server_count
  std::vector<RouteTable> tables;                   // 1..kMaxPlanTables; ranks of a rack have one in common
  std::vector<std::uint8_t> table_of;               // by rank, 1..kMaxRanks of them; below tables.size()

  bool operator==(const Plan&) const = default;

  [[nodiscard]] std::uint32_t world() const noexcept { return static_cast<std::uint32_t>(table_of.size()); }
  // rank: below world().
  [[nodiscard]] Route route(Rank rank, Chunk chunk) const noexcept {
    return tables[table_of[raw(rank)]][plan_group(chunk)];
  }
  [[nodiscard]] std::uint32_t server(Chunk chunk) const noexcept { return servers[plan_group(chunk)]; }
  // The ranks whose contributions of a group the box adds up, and those whose it adds up or passes on: who has its
  // result from there.
  [[nodiscard]] std::uint64_t here(BoxIndex box, std::uint32_t group) const noexcept {
    return ranks_of(box, group, false);
  }
  [[nodiscard]] std::uint64_t through(BoxIndex box, std::uint32_t group) const noexcept {
    return ranks_of(box, group, true);
  }

 private:
  [[nodiscard]] std::uint64_t ranks_of(BoxIndex box, std::uint32_t group, bool direct_too) const noexcept {
    std::uint64_t ranks = 0;
    for (std::size_t rank = 0; rank < table_of.size(); ++rank) {
      const Route route = tables[table_of[rank]][group];
      if (route.box == box && (direct_too || !route.direct)) ranks |= std::uint64_t{1} << rank;
    }
    return ranks;
  }
};

// As it travels: a fixed part, 16 bytes for each box, a byte for each rank, a byte for each group's server, and
// for each table a byte for each group.
struct PlanHeader {
  std::uint8_t format = 1;
  std::uint8_t boxes = 0;
  std::uint8_t tables = 0;
  std::uint8_t servers = 0;
  std::uint8_t world = 0;
  std::array<std::uint8_t, 3> zero{};
};
static_assert(sizeof(PlanHeader) == 8);

constexpr std::size_t plan_bytes(std::size_t boxes, std::size_t world, std::size_t tables) noexcept {
  return sizeof(PlanHeader) + boxes * sizeof(Ipv6) + world + (1 + tables) * kPlanGroups;
}
inline constexpr std::size_t kMaxPlanBytes = plan_bytes(kMaxPlanBoxes, kMaxRanks, kMaxPlanTables);

// A plan travels in pages, all but the last of them full.
inline constexpr std::size_t kPlanPageBytes = 1'280;
inline constexpr std::size_t kMaxPlanPages = (kMaxPlanBytes + kPlanPageBytes - 1) / kPlanPageBytes;
static_assert(kMaxPlanPages <= 64);  // a bitmap of them is one word

constexpr std::uint32_t plan_pages(std::size_t bytes) noexcept {
  return static_cast<std::uint32_t>((bytes + kPlanPageBytes - 1) / kPlanPageBytes);
}

// plan: within its limits.
inline std::vector<std::byte> write_plan(const Plan& plan) {
  std::vector<std::byte> out(plan_bytes(plan.boxes.size(), plan.table_of.size(), plan.tables.size()));
  std::byte* at = out.data();
  const auto put = [&at](const void* from, std::size_t size) {
    if (size != 0) std::memcpy(at, from, size);
    at += size;
  };
  const PlanHeader head{.boxes = static_cast<std::uint8_t>(plan.boxes.size()),
                        .tables = static_cast<std::uint8_t>(plan.tables.size()),
                        .servers = plan.server_count,
                        .world = static_cast<std::uint8_t>(plan.table_of.size())};
  put(&head, sizeof head);
  put(plan.boxes.data(), plan.boxes.size() * sizeof(Ipv6));
  put(plan.table_of.data(), plan.table_of.size());
  put(plan.servers.data(), plan.servers.size());
  for (const RouteTable& table : plan.tables)
    for (const Route route : table) *at++ = std::byte{route.byte()};
  return out;
}

// Nothing: the bytes are no plan, or its parts do not fit each other.
inline std::optional<Plan> read_plan(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(PlanHeader)) return std::nullopt;
  const auto head = wire_at<PlanHeader>(bytes.data());
  const bool in_range = head.format == 1 && head.zero == decltype(head.zero){} && head.boxes >= 1 &&
                        head.boxes <= kMaxPlanBoxes && head.tables >= 1 && head.tables <= kMaxPlanTables &&
                        head.servers >= 1 && head.servers <= kMaxServers && head.world >= 1 &&
                        head.world <= kMaxRanks;
  if (!in_range || bytes.size() != plan_bytes(head.boxes, head.world, head.tables)) return std::nullopt;
  const std::byte* at = bytes.data() + sizeof head;
  const auto take = [&at](auto* to, std::size_t size) {
    std::memcpy(to, at, size);
    at += size;
  };
  Plan plan;
  plan.server_count = head.servers;
  plan.boxes.resize(head.boxes);
  take(plan.boxes.data(), plan.boxes.size() * sizeof(Ipv6));
  plan.table_of.resize(head.world);
  take(plan.table_of.data(), plan.table_of.size());
  take(plan.servers.data(), plan.servers.size());
  for (std::size_t box = 1; box < plan.boxes.size(); ++box) {
    const auto before = plan.boxes.begin() + static_cast<std::ptrdiff_t>(box);
    if (std::find(plan.boxes.begin(), before, plan.boxes[box]) != before) return std::nullopt;
  }
  const auto below = [](const auto& values, std::size_t end) {
    return std::all_of(values.begin(), values.end(), [end](std::uint8_t value) { return value < end; });
  };
  if (!below(plan.table_of, head.tables) || !below(plan.servers, head.servers)) return std::nullopt;
  plan.tables.resize(head.tables);
  for (RouteTable& table : plan.tables) {
    for (Route& route : table) {
      route = Route::of(std::to_integer<std::uint8_t>(*at++));
      if (route.box >= head.boxes) return std::nullopt;
    }
  }
  return plan;
}

}  // namespace tally
