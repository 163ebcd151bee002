// A fixture for a box that is not the home of its job: the job of two boxes, of which the second is looked at.
#pragma once

#include <gtest/gtest.h>

#include "members_boxes_support.h"

namespace tally::members_test {

struct MembersBoxesGuest : testing::Test, Boxes {
  MembersBoxesGuest() : Boxes(2) { EXPECT_TRUE(form()); }

  Bench& guest() { return boxes[1]; }
  Member& worker(std::size_t i) { return all[i]; }
  Member& server(std::size_t i) { return all[workers + i]; }
  void nothing_but(const Peer& from, const Bytes& datagram, members::MembershipDrop why) {
    const std::uint64_t before = dropped(1, why);
    EXPECT_TRUE(guest().send_bare(from, datagram).empty());
    EXPECT_EQ(dropped(1, why), before + 1) << members::name_of(why);
  }
  // The member's next ENLIST as `change` makes it, with a fresh challenge; the refusal's text.
  template <class Change>
  std::string refusal(Member& m, members::MembershipDrop why, Change change) {
    enlist(m, 1);
    Member said = m;
    Seat& seat = said.seats[1];
    m.seats[1].attempt = ++seat.attempt;
    EnlistPayload payload = said.enlist_payload(1);
    change(payload, said);
    const std::uint64_t before = dropped(1, why);
    const auto sent = guest().send_bare(m, said.enlist_as(payload));
    EXPECT_EQ(dropped(1, why), before + 1) << members::name_of(why);
    if (sent.size() != 1 || sent[0].type() != PacketType::kJoined) return "no answer";
    EXPECT_EQ(sent[0].status(), JoinStatus::kRefused);
    EXPECT_TRUE(auth::verify(m.job_key(), sent[0].header, sent[0].payload));
    return sent[0].text();
  }
  Sent refused(const std::vector<Sent>& sent, const Member& m) {
    Sent s = only(sent, PacketType::kJoined, m);
    EXPECT_EQ(s.status(), JoinStatus::kRefused);
    return s;
  }
  // The home begins another epoch, and its members are in it.
  void another_epoch() {
    ASSERT_TRUE(home().members->replan("resnet", home().now));
    home().settle();
    ASSERT_TRUE(form());
  }
};

}  // namespace tally::members_test
