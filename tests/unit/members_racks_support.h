#pragma once
// A job of racks: the parent and the box of each rack on a bench of its own, a wire between them, and workers.

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "members_support.h"

namespace tally::members_test {

// A Peer of whose JOIN alone the rank is its number in the whole job.
struct RackWorker : Peer {
  std::uint16_t number = 0;
  std::size_t rack = 0;
  std::string told{};  // why it was refused, or its job was aborted
  std::vector<std::uint32_t> epochs{};

  [[nodiscard]] Bytes join();
  // What the box of its rack said to it; whoever is called back or refused, or whose job is aborted, is out.
  void hear(const std::vector<Sent>& sent);
  [[nodiscard]] bool runs() const { return epoch != 0; }
  [[nodiscard]] Bytes numbered(const Bytes& join) const;
};

// Where it is said to go wrong: false, and the datagram is lost.
using Way = std::function<bool(std::size_t rack, const Bytes& datagram)>;

members::MembershipOptions box_of_a_rack(std::uint32_t slot_lines = 65'536);

struct Racks {
  explicit Racks(std::vector<std::uint8_t> workers = {2, 3},
                 const members::MembershipOptions& rack_box = box_of_a_rack());

  [[nodiscard]] members::NativeConfig config(std::optional<std::size_t> rack) const;  // empty: the parent's

  // To the box of its rack; everything that follows of it, on all boxes, at this moment.
  std::vector<Sent> say(RackWorker& worker, const Bytes& datagram);
  // Everybody who is in no epoch joins, or joins again. False: some are in none in the end.
  bool form();
  std::vector<Sent> run();  // carries what is under way
  // Everybody who runs beats all the time but `silent`; who does not joins again each second, if it `joins`.
  void pass(TimeNs time, const RackWorker* silent = nullptr, bool joins = true);
  // Without workers.
  std::vector<Sent> wait(TimeNs time);
  // The daemon dies and comes back; time goes on.
  void forget(Bench& box);

  [[nodiscard]] TimeNs now() const { return parent.now; }
  [[nodiscard]] members::JobStatus status(std::size_t rack) const { return racks[rack].status(ids[rack]); }
  [[nodiscard]] members::JobStatus status_of_parent() const { return parent.status(id); }
  [[nodiscard]] const jobs::NativeJob* row(std::size_t rack) const { return racks[rack].row(ids[rack]); }
  [[nodiscard]] jobs::Binding place_of(std::size_t rack) const;  // as the parent sees it
  [[nodiscard]] jobs::Binding place_of_parent() const;
  [[nodiscard]] std::size_t running() const;
  // Everybody is in one epoch, which is the rows' and the parent's.
  void expect_one_epoch() const;
  [[nodiscard]] std::vector<std::string> told() const;

  Way up = [](std::size_t, const Bytes&) { return true; };
  Way down = up;
  std::vector<std::pair<std::size_t, Bytes>> went_up{};  // newest last; all that was said
  std::vector<std::pair<std::size_t, Bytes>> went_down{};
  std::vector<std::uint8_t> list;
  Bench parent;
  std::deque<Bench> racks;
  JobId id{};
  std::vector<JobId> ids;
  std::deque<RackWorker> all;
};

PacketType type_of(const Bytes& datagram);
// Of those that went so: how many of that type.
std::size_t count_in(const std::vector<std::pair<std::size_t, Bytes>>& went, PacketType type);

}  // namespace tally::members_test
