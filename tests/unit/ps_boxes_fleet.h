#pragma once
// A whole server and the boxes of a plan, whose words are made by hand: what each box says to a JOIN, an ENLIST, a
// wish for a page or a HEARTBEAT, and datagrams by address.

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ps/ps_engine.h"
#include "ps_boxes_support.h"

namespace tally::psbed {

// One job, and the plan of its present epoch. The home is a box of the plan, or none (kNoBox).
struct PlannedJob {
  BoxJob job;
  Plan plan;
  BoxIndex home = 0;
  Ipv6 home_address{};  // of a home that is none of the plan's boxes

  [[nodiscard]] Ipv6 at_home() const { return home == PlannedText::kNoBox ? home_address : plan.boxes[home]; }
  [[nodiscard]] std::vector<std::byte> bytes() const { return write_plan(plan); }
  [[nodiscard]] BoxJob at(BoxIndex box) const { return at_box(job, box); }
  // As the home says it; box 0's id and shards where the home is none of the plan's.
  [[nodiscard]] BoxJob at_home_box() const { return home == PlannedText::kNoBox ? job : at(home); }

  // Words of the home.
  [[nodiscard]] Bytes joined(std::uint64_t nonce) const;
  [[nodiscard]] Bytes elsewhere(std::uint64_t nonce) const;  // of another box
  [[nodiscard]] Bytes page(std::uint8_t number) const;
  // Words of another box of the plan.
  [[nodiscard]] engine::Membership guest_session(BoxIndex box) const;
  [[nodiscard]] Bytes enlisted(BoxIndex box, std::uint64_t nonce) const;
  [[nodiscard]] Bytes lacks(BoxIndex box, std::uint64_t nonce, std::uint64_t pages) const;
  [[nodiscard]] Bytes refuses(BoxIndex box, std::uint64_t nonce, const std::string& why) const;
  [[nodiscard]] Bytes echo(BoxIndex box) const;
  [[nodiscard]] Bytes forgot(BoxIndex box,
                             std::uint64_t counter) const;  // answers a HEARTBEAT of this counter
  [[nodiscard]] Bytes ends(BoxIndex box, const std::string& why) const;
};

struct FleetOut {
  Ipv6 box{};
  Bytes bytes;
  std::uint16_t port = 0;
  [[nodiscard]] Header header() const { return header_of(bytes); }
  [[nodiscard]] PacketType type() const { return header().type; }
};

[[nodiscard]] EnlistPayload enlist_payload(const Bytes& enlist);
[[nodiscard]] LostPayload lost_payload(const Bytes& lost);
[[nodiscard]] std::string job_of_enlist(const Bytes& enlist);
[[nodiscard]] std::uint64_t counter_of(const Bytes& counted);

class Fleet {
 public:
  // boxes: as in PsOptions.
  explicit Fleet(std::vector<PlannedJob> jobs, std::vector<Ipv6> boxes = {}, std::size_t states = 64);

  // Everything due now.
  std::vector<FleetOut> drain();
  // The same without what boxes answer at once and always: HEARTBEATs.
  std::vector<FleetOut> quiet();
  void hear(const Ipv6& from, const Bytes& datagram) { server->receive(datagram, now, from); }
  void hear(const PlannedJob& job, BoxIndex from, const Bytes& datagram) {
    hear(job.plan.boxes[from], datagram);
  }
  // What the boxes answer, but those that are silent; nothing for data.
  void answer(const FleetOut& out);
  // Boxes answer until nobody says anything more now: the server is a member everywhere.
  std::vector<FleetOut> settle();
  // Time goes on, the boxes answer. What else was sent.
  std::vector<FleetOut> live(TimeNs time);
  void expect_refused(const Ipv6& from, const Bytes& datagram, Refused why);
  [[nodiscard]] std::vector<std::string> events();
  [[nodiscard]] const ps::PsJobStatistics& counted(std::size_t job = 0) const {
    return server->statistics(job);
  }

  std::vector<PlannedJob> jobs;
  std::set<Ipv6> silent;
  std::unique_ptr<ps::PsEngine> server;
  TimeNs now = kSecond;

 private:
  void answer_enlist(const FleetOut& out);
};

}  // namespace tally::psbed
