#pragma once
// What a box says to a member of a job, made from the epoch that the member shall see: `cookie` and `session`
// are the member's. Nothing is checked, so that what no box says can be said, too.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "engine/datagram.h"
#include "engine/worker_join.h"
#include "kernels/kernels.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally {

// In the box's name, with job, epoch and result cookie.
[[nodiscard]] inline Header box_header(const engine::Membership& epoch, PacketType type) {
  Header header;
  header.type = type;
  header.job = Be{raw(epoch.job)};
  header.rank = Be{raw(kSwitchRank)};
  header.epoch = Be{raw(epoch.epoch)};
  header.cookie = Be{raw(epoch.result_cookie)};
  return header;
}

// The header with its check in front of the payload; for control types with the CRC of the payload.
[[nodiscard]] inline std::vector<std::byte> box_says(const Header& header,
                                                     std::span<const std::byte> payload = {}) {
  std::vector<std::byte> out(kHeaderBytes + payload.size());
  std::ranges::copy(payload, out.begin() + kHeaderBytes);
  if (is_control(header.type))
    engine::seal_control(header, payload.size(), out, kernels::best_kernels());
  else
    engine::seal(header, payload.size(), out, kernels::best_kernels());
  return out;
}

// ... with the tag of header and body behind it.
[[nodiscard]] inline std::vector<std::byte> box_says(const Header& header, std::span<const std::byte> body,
                                                     const auth::Key& key) {
  std::vector<std::byte> payload(body.begin(), body.end());
  const Tag tag = auth::tag_of(key, header, body);
  std::ranges::copy(std::as_bytes(std::span(tag)), std::back_inserter(payload));
  std::vector<std::byte> out(kHeaderBytes + payload.size());
  std::ranges::copy(payload, out.begin() + kHeaderBytes);
  engine::seal_control(header, payload.size(), out, kernels::best_kernels());
  return out;
}

// ... and a counter in front of the text.
[[nodiscard]] inline std::vector<std::byte> box_says(const Header& header, std::uint64_t counter,
                                                     const auth::Key& key,
                                                     std::span<const std::byte> text = {}) {
  std::vector<std::byte> body(sizeof(CountedPayload));
  wire_put(body.data(), CountedPayload{Be{counter}});
  std::ranges::copy(text, std::back_inserter(body));
  return box_says(header, body, key);
}

// One that no box of this process has used.
[[nodiscard]] inline std::uint64_t next_counter() noexcept {
  static std::uint64_t counter = 0;
  return ++counter;
}

// Under the member's session key, with a new counter.
[[nodiscard]] inline std::vector<std::byte> box_tells(const engine::Membership& epoch, const Header& header,
                                                      std::span<const std::byte> text = {}) {
  return box_says(header, next_counter(), epoch.session, text);
}

// CHALLENGE. Its content is nobody's business but the box's.
[[nodiscard]] inline std::vector<std::byte> box_challenges(std::uint64_t nonce, const Tag& challenge = {1}) {
  Header header;
  header.type = PacketType::kChallenge;
  header.rank = Be{raw(kSwitchRank)};
  const ChallengePayload payload{Be{nonce}, challenge};
  return box_says(header, std::as_bytes(std::span(&payload, 1)));
}

// Of a job of racks.
[[nodiscard]] inline std::vector<std::byte> racks_text(const engine::RackPlace& place) {
  std::vector<std::byte> text(sizeof(RacksText));
  wire_put(text.data(), RacksText{place.rack, place.most_advanced, place.racks, 0});
  for (std::size_t r = 0; r < place.racks; ++r) text.push_back(std::byte{place.workers.at(r)});
  return text;
}

// JOINED. job: the job's key. missing: bitmap of ranks, while forming. text: of a refusal; in a job of racks it is what
// the epoch says of them.
[[nodiscard]] inline std::vector<std::byte> box_joined(const engine::Membership& epoch, JoinStatus status,
                                                       std::uint64_t nonce, const auth::Key& job,
                                                       std::uint64_t missing = 0,
                                                       std::span<const std::byte> text = {}) {
  JoinedPayload said;
  said.nonce = Be{nonce};
  said.missing = Be{missing};
  said.cookie = Be{raw(epoch.cookie)};
  said.salt = Be{epoch.salt};
  said.record = epoch.record();
  said.world = Be{static_cast<std::uint16_t>(epoch.world)};
  said.window = Be{epoch.window};
  said.shared_slots = Be{epoch.shared_slots};
  said.lease_ms = Be{static_cast<std::uint32_t>(epoch.lease / kMillisecond)};
  said.most_advanced = Be{raw(epoch.most_advanced)};
  said.group_port = Be{epoch.group_port};
  said.group = epoch.group;
  said.box_mac = epoch.box_mac;
  said.status = status;
  said.discipline = epoch.discipline;
  said.results = epoch.results;
  said.shards = static_cast<std::uint8_t>(epoch.shards);
  const bool racks = epoch.has_racks() && status != JoinStatus::kRefused;
  const std::vector<std::byte> of_racks = racks ? racks_text(epoch.place) : std::vector<std::byte>{};
  if (racks) text = of_racks;
  said.text_bytes = Be{static_cast<std::uint16_t>(text.size())};
  std::vector<std::byte> payload(sizeof said);
  std::memcpy(payload.data(), &said, sizeof said);
  payload.insert(payload.end(), text.begin(), text.end());
  Header header = box_header(epoch, PacketType::kJoined);
  if (status != JoinStatus::kRunning) {
    header.job = {}, header.epoch = {}, header.cookie = {};
  } else {
    header.priority = epoch.max_priority;
    if (epoch.stragglers) header.flags = kFlagIncomplete;
    if (epoch.sparse) header.contributors = Be{kFeatureSparse};
  }
  if (racks) header.flags |= kFlagRacks;
  return box_says(header, payload, job);
}

}  // namespace tally
