#pragma once
// A job over several boxes: each of them on a bench of its own, and members that join the home and enlist at the
// others.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "members_support.h"
#include "tally/plan.h"

namespace tally::members_test {

Ipv6 box_address(std::size_t box);

// What a member knows of a box of its plan that is not the home.
struct Seat {
  std::uint16_t job_id = 0;
  std::uint64_t nonce = 0;
  std::uint32_t attempt = 0;
  Tag challenge{};
  bool running = false;       // JOINED(running) came, for the member's present epoch
  std::uint64_t missing = 0;  // as the newest JOINED(forming) said
  std::uint64_t sent = 0;     // what it said: HEARTBEATs and LEAVE
};

struct Member : Peer {
  explicit Member(const Peer& peer) : Peer(peer) {}

  // Of the newest JOINED(running) of the home.
  std::uint32_t window = 0;
  std::uint32_t lease_ms = 0;
  std::uint8_t priority = 0;
  PlannedText planned{};
  std::vector<std::byte> plan_bytes{};  // as fetched
  std::optional<Plan> plan{};

  std::map<std::size_t, Seat> seats{};  // by box

  // Which of the plan's boxes it is; 255: none.
  [[nodiscard]] BoxIndex index_of(std::size_t box) const;
  [[nodiscard]] bool serves() const { return server_index(Rank{rank}) < kMaxServers; }
  [[nodiscard]] auth::Key key_of(std::size_t box) const {
    return auth::box_session_key(session_key(), index_of(box));
  }

  [[nodiscard]] EnlistPayload enlist_payload(std::size_t box) const;
  [[nodiscard]] Bytes enlist(std::size_t box);              // the next attempt with a new nonce
  [[nodiscard]] Bytes enlist_again(std::size_t box) const;  // the same, with the newest challenge
  [[nodiscard]] Bytes enlist_as(const EnlistPayload& payload) const;
  [[nodiscard]] Bytes wish(std::uint32_t page) const;
  [[nodiscard]] Bytes page(std::uint32_t page) const;
  [[nodiscard]] Bytes page_as(const PlanPayload& fixed, std::span<const std::byte> page) const;
  [[nodiscard]] Bytes beat(std::size_t box);
  [[nodiscard]] Bytes leave_box(std::size_t box);
  [[nodiscard]] Bytes lost(std::uint64_t gone, std::uint64_t forgot) const;

  // What the home answered to its newest JOIN; forgets what it knew of the others with another epoch.
  void take_home(const std::vector<Sent>& sent);
  // What another box said; true: it is enlisted there from now on.
  bool take_box(std::size_t box, const std::vector<Sent>& sent);

 private:
  [[nodiscard]] Bytes said_to(std::size_t box, PacketType type);
};

// Two workers, two servers, and `count` boxes of which the first is the home, and the others may be of another size.
struct Boxes {
  explicit Boxes(std::size_t count, std::uint16_t workers = 2, std::uint8_t servers = 2,
                 const members::MembershipOptions& others = shared_box(65'536, 100));

  [[nodiscard]] members::NativeConfig config(std::size_t here, std::size_t home = 0) const;
  // All join the home and fetch the plan. False if some did not run.
  bool form();
  // The member fetches the plan of its epoch from its home.
  bool fetch(Member& member);
  // One ENLIST, with the CHALLENGE that it may take.
  std::vector<Sent> enlist(Member& member, std::size_t box);
  // All pages that the box said it lacks.
  std::vector<Sent> bring_pages(Member& member, std::size_t box);
  // Every member enlists there, servers first; false if some are not enlisted in the end.
  bool enlist_all(std::size_t box);
  // Time goes by on all benches; everybody else beats everywhere, `silent_at` a box alone.
  std::vector<Sent> pass(TimeNs time, const Member* silent = nullptr,
                         std::optional<std::size_t> silent_at = {});

  [[nodiscard]] Bench& home() { return boxes[home_]; }
  [[nodiscard]] members::JobStatus status(std::size_t box) const { return boxes[box].status(ids[box]); }
  [[nodiscard]] const jobs::NativeJob* row(std::size_t box) const { return boxes[box].row(ids[box]); }
  [[nodiscard]] std::uint64_t dropped(std::size_t box, members::MembershipDrop why) const {
    return boxes[box].members->counters().of(why);
  }
  [[nodiscard]] std::uint64_t accepted(std::size_t box, PacketType type) const {
    return boxes[box].members->counters().of(type);
  }

  std::size_t home_ = 0;
  std::uint16_t workers = 2;
  std::uint8_t servers = 2;
  members::PlanSource source = members::even_plan;  // asked through: may be replaced at any time
  std::vector<members::PlanRequest> asked;          // what it was asked; spans and `job` do not live
  std::deque<Bench> boxes;
  std::vector<JobId> ids;
  std::vector<Member> all;  // workers, then servers
};

// The home on its bench, beside two others.
struct MembersBoxesHome : testing::Test, Boxes {
  MembersBoxesHome() : Boxes(3) {}

  // Each member was called back by a word that it believes.
  void expect_called_back(const std::vector<Sent>& sent) {
    for (const Member& m : all) {
      const Sent s = only(sent, PacketType::kReject, m);
      EXPECT_TRUE(m.believes(s)) << m.rank;
      EXPECT_EQ(s.header.epoch.host(), m.epoch);
      EXPECT_EQ(s.header.slot.host(), static_cast<std::uint32_t>(RejectReason::kEpoch));
    }
  }
  Plan plan_now() {
    EXPECT_TRUE(form());
    return *all[0].plan;
  }
};

}  // namespace tally::members_test
