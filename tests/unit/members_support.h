#pragma once
// A box's membership on a bench: hand-made packets in, decoded answers out, data cores that obey at once or
// when told.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "members/membership.h"
#include "peer.h"
#include "tally/wire.h"

namespace tally::members_test {

struct Sent {
  jobs::Binding to{};
  Header header{};
  Bytes payload{};

  [[nodiscard]] PacketType type() const { return header.type; }
  [[nodiscard]] JoinedPayload joined() const;
  [[nodiscard]] JoinStatus status() const { return joined().status; }
  [[nodiscard]] std::string text() const;  // of a JOINED or an ABORT
  [[nodiscard]] std::uint64_t counter() const {
    return wire_at<CountedPayload>(payload.data()).counter.host();
  }
};

// A JOIN with the newest challenge of its sender, by instance, in it; anything else as it is.
Bytes with_challenge(const Peer& from, const Bytes& datagram, const std::map<std::uint64_t, Tag>& challenges);

// From a rack's box to the parent of its job.
struct Upward {
  Bytes datagram{};
  jobs::Binding to{};
  bool everywhere = false;
};

struct Bench {
  explicit Bench(std::uint32_t slot_lines = 65'536, std::uint8_t shards = 1, std::uint64_t seed = 1);
  explicit Bench(const members::MembershipOptions& options, std::uint64_t seed = 1);

  JobId declare(const members::NativeConfig& config);
  void forget_everything();  // control dies and comes back with the same configuration

  // One packet; the answers, after the data cores have taken up what it published (unless cores_wait). A JOIN
  // is told the newest CHALLENGE of its sender first, as a worker does, and sent again if it gets one.
  std::vector<Sent> send(const Peer& from, const Bytes& datagram);
  // As it is.
  std::vector<Sent> send_bare(const Peer& from, const Bytes& datagram);
  // Gets one for the sender: its binding may be new.
  void challenge(Peer& of);
  Bytes with_challenge(const Peer& from, const Bytes& datagram) const {
    return members_test::with_challenge(from, datagram, challenges);
  }
  std::vector<Sent> settle();            // publications taken up, answers read
  std::vector<Sent> answers();           // what next() gives now
  std::vector<Sent> advance(TimeNs by);  // stops at every deadline on the way

  // All peers join and take the JOINED(running) they get. False if some did not run in the end.
  bool form(std::vector<Peer>& peers);
  bool form(const std::vector<Peer*>& peers);
  static void take(Peer& peer, const std::vector<Sent>& sent);  // notes the newest JOINED(running) for it

  // A data core took a valid packet of the rank.
  void saw(JobId id, Rank rank, TimeNs at) { last_seen[{id, rank}] = at; }

  [[nodiscard]] members::JobStatus status(JobId id) const { return *members->status(id, now); }
  // The rows as published; nullptr: none.
  [[nodiscard]] const jobs::NativeJob* row(JobId id) const {
    return table == nullptr ? nullptr : table->find(id);
  }
  [[nodiscard]] const jobs::SessionJob* session(JobId id) const {
    return table == nullptr ? nullptr : jobs::row_as<jobs::SessionJob>(table->row(id));
  }

  members::MembershipOptions options;
  std::uint64_t seed;
  std::vector<members::NativeConfig> jobs;
  std::optional<members::MembershipEngine> members;
  std::map<std::pair<JobId, Rank>, TimeNs> last_seen;
  TimeNs now = 100 * kSecond;
  bool cores_wait = false;
  std::vector<Upward> upwards;  // what answers() found that is for no member
  std::uint64_t version = 0;    // newest publication
  std::shared_ptr<const jobs::JobTable> table;
  std::vector<jobs::FreedLines> freed;      // of all publications
  std::map<std::uint64_t, Tag> challenges;  // newest, by instance
};

members::NativeConfig config_of(std::uint16_t workers, const std::string& name = "resnet");
// A job that shares slots.
members::NativeConfig sharer_of(std::uint16_t workers, Discipline discipline,
                                const std::string& name = "resnet");
// ... and is summed by external servers.
members::NativeConfig served_of(std::uint16_t workers, std::uint8_t servers,
                                const std::string& name = "resnet");
// A box with shared slots: `own_lines` in front of them on each core.
members::MembershipOptions shared_box(std::uint32_t own_lines, std::uint32_t entries, std::uint8_t shards = 1,
                                      std::uint16_t elements = 352);

// The only answer of that kind to that peer; fails the test if there is none or more than one.
Sent only(const std::vector<Sent>& sent, PacketType type, const Peer& to);
std::size_t count_of(const std::vector<Sent>& sent, PacketType type, const Peer& to);

}  // namespace tally::members_test
