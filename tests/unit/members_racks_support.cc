#include "members_racks_support.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tally/mix64.h"

namespace tally::members_test {

PacketType type_of(const Bytes& datagram) { return wire_at<Header>(datagram.data()).type; }

std::size_t count_in(const std::vector<std::pair<std::size_t, Bytes>>& went, PacketType type) {
  return static_cast<std::size_t>(
      std::ranges::count_if(went, [type](const auto& one) { return type_of(one.second) == type; }));
}

Bytes RackWorker::numbered(const Bytes& join) const {
  auto header = wire_at<Header>(join.data());
  header.rank = Be<std::uint16_t>(number);
  return tagged(header, Bytes(join.begin() + kHeaderBytes, join.end() - kTagBytes), job_key());
}

Bytes RackWorker::join() { return numbered(Peer::join()); }

void RackWorker::hear(const std::vector<Sent>& sent) {
  for (const Sent& s : sent) {
    if (s.to != binding) continue;
    if (s.type() == PacketType::kJoined) {
      if (!auth::verify(job_key(), s.header, s.payload) && s.status() != JoinStatus::kRefused) continue;
      if (s.joined().nonce.host() != nonce || runs()) continue;
      if (s.status() == JoinStatus::kRefused) {
        told = s.text();
        last = {};
        lowest = next = 0;
      }
      if (s.status() != JoinStatus::kRunning) continue;
      Bench::take(*this, {s});
      epochs.push_back(epoch);
      continue;
    }
    if (!runs() || s.header.epoch.host() != epoch) continue;
    const bool unknown = s.type() == PacketType::kReject && auth::verify(job_key(), s.header, s.payload);
    if (!believes(s) && !unknown) continue;
    if (s.type() == PacketType::kReject) epoch = 0;
    if (s.type() != PacketType::kAbort) continue;
    told = s.text();
    epoch = 0;
    last = {};
    lowest = next = 0;
  }
}

members::MembershipOptions box_of_a_rack(std::uint32_t slot_lines) {
  return {.box_mac = {2, 1, 2, 3, 4, 5},
          .shards = 2,
          .slot_lines = slot_lines,
          .calendar = 1'700'000'000 * kSecond};
}

Racks::Racks(std::vector<std::uint8_t> workers, const members::MembershipOptions& rack_box)
    : list(std::move(workers)), parent(box_of_a_rack(), 7) {
  id = parent.declare(config({}));
  std::uint16_t number = 0;
  const auto world = config({}).racks->world();
  for (std::size_t r = 0; r < list.size(); ++r) {
    racks.emplace_back(rack_box, 100 + r);
    ids.push_back(racks[r].declare(config(r)));
    for (std::uint16_t rank = 0; rank < list[r]; ++rank, ++number) {
      RackWorker& w = all.emplace_back(RackWorker{Peer(number, world), number, r});
      w.rank = rank;
    }
  }
  run();
}

members::NativeConfig Racks::config(std::optional<std::size_t> rack) const {
  members::NativeConfig c = config_of(1);
  c.racks.emplace();
  c.racks->workers = list;
  if (rack) {
    c.racks->rack = static_cast<std::uint8_t>(*rack);
    c.racks->parent = place_of_parent().address;
  }
  c.workers = c.racks->ranks_here();
  return c;
}

jobs::Binding Racks::place_of(std::size_t rack) const {
  const auto r = static_cast<std::uint8_t>(rack);
  return {.address = mapped({10, 9, 1, r}),
          .mac = {2, 9, 1, 0, 0, r},
          .udp_port = kBasePort,
          .port = PortIndex{r}};
}

jobs::Binding Racks::place_of_parent() const {
  return {.address = mapped({10, 9, 0, 9}),
          .mac = {2, 9, 0, 0, 0, 9},
          .udp_port = kBasePort,
          .port = PortIndex{7}};
}

std::vector<Sent> Racks::run() {
  std::vector<Sent> to_workers;
  bool any = true;
  while (any) {
    any = false;
    for (std::size_t r = 0; r < racks.size(); ++r) {
      for (Sent& s : racks[r].settle()) to_workers.push_back(std::move(s));
      for (const Upward& said : std::exchange(racks[r].upwards, {})) {
        any = true;
        EXPECT_EQ(said.to.address, place_of_parent().address);
        EXPECT_TRUE(said.everywhere || said.to == place_of_parent());
        went_up.emplace_back(r, said.datagram);
        if (up(r, said.datagram)) parent.members->receive(said.datagram, place_of(r), now());
      }
    }
    for (const Sent& s : parent.settle()) {
      any = true;
      for (std::size_t r = 0; r < racks.size(); ++r) {
        if (s.to != place_of(r)) continue;
        Bytes datagram(kHeaderBytes);
        wire_put(datagram.data(), s.header);
        datagram.insert(datagram.end(), s.payload.begin(), s.payload.end());
        went_down.emplace_back(r, datagram);
        if (down(r, datagram)) racks[r].members->receive(datagram, place_of_parent(), now());
      }
    }
  }
  std::map<Ipv6, std::vector<Sent>> by_address;
  for (const Sent& s : to_workers) by_address[s.to.address].push_back(s);
  for (RackWorker& w : all) {
    const auto mine = by_address.find(w.binding.address);
    if (mine != by_address.end()) w.hear(mine->second);
  }
  return to_workers;
}

std::vector<Sent> Racks::say(RackWorker& worker, const Bytes& datagram) {
  std::vector<Sent> sent = racks[worker.rack].send(worker, datagram);
  for (RackWorker& w : all) w.hear(sent);
  for (Sent& s : run()) sent.push_back(std::move(s));
  return sent;
}

std::size_t Racks::running() const {
  return static_cast<std::size_t>(std::ranges::count_if(all, &RackWorker::runs));
}

bool Racks::form() {
  for (RackWorker& w : all)
    if (!w.runs()) say(w, w.join());
  wait(200 * kMillisecond);  // of two JOINs of a rack
  return running() == all.size();
}

std::vector<Sent> Racks::wait(TimeNs time) {
  const TimeNs end = now() + time;
  std::vector<Sent> all_sent;
  while (true) {
    TimeNs next = std::max(now(), parent.members->deadline());
    for (const Bench& r : racks) next = std::min(next, std::max(now(), r.members->deadline()));
    next = std::min(next, end);
    parent.now = next;
    for (Bench& r : racks) r.now = next;
    parent.members->tick(next);
    EXPECT_GT(parent.members->deadline(), next);
    for (Bench& r : racks) {
      r.members->tick(next);
      EXPECT_GT(r.members->deadline(), next);
    }
    for (Sent& s : run()) all_sent.push_back(std::move(s));
    if (next == end) return all_sent;
  }
}

void Racks::pass(TimeNs time, const RackWorker* silent, bool joins) {
  for (const TimeNs end = now() + time; now() < end;) {
    for (RackWorker& w : all) {
      if (&w == silent) continue;
      if (w.runs())
        say(w, w.heartbeat());
      else if (joins)
        say(w, w.join());
    }
    wait(std::min(end - now(), kSecond));
  }
}

void Racks::forget(Bench& box) {
  box.forget_everything();
  box.upwards.clear();
}

void Racks::expect_one_epoch() const {
  const jobs::NativeJob* const at_parent = parent.row(id);
  ASSERT_NE(at_parent, nullptr);
  for (const RackWorker& w : all) {
    EXPECT_EQ(w.epoch, raw(at_parent->epoch)) << w.number;
    EXPECT_EQ(w.last, all.front().last) << w.number;
  }
  for (std::size_t r = 0; r < racks.size(); ++r) {
    ASSERT_NE(row(r), nullptr) << r;
    EXPECT_EQ(row(r)->epoch, at_parent->epoch) << r;
    EXPECT_EQ(row(r)->generation, at_parent->generation) << r;
  }
}

std::vector<std::string> Racks::told() const {
  std::vector<std::string> texts;
  for (const RackWorker& w : all) texts.push_back(w.told);
  return texts;
}

}  // namespace tally::members_test
