#pragma once
// The clients of a session, a network and the product's own rules (pipeline/session_pool.h), as a model for
// explorer.h. There is no clock in it, and none in the rules: that somebody is late or silent, for however
// long, is only that others come first.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "explorer.h"
#include "jobs/job_table.h"

namespace tally::models {

struct SessionCase {
  std::uint8_t members = 2;  // at most 3
  std::uint8_t window = 1;   // at most 2
  // Packets of each operation, and how many of them at once: the reply to packet p lets p + batch be sent.
  struct Operation {
    std::uint8_t packets, batch;
  };
  std::vector<Operation> operations{};  // at most 4 of at most 8 packets
  jobs::TsiRule tsi = jobs::TsiRule::kPacket;
  std::uint8_t first_number = 254;  // of the first operation: job numbers go round after two
  bool loses = false;    // anything, and members send again; else each packet is sent once, and arrives
  bool replays = false;  // of whatever a member has sent before, at any time, in any order
  // The timers of a first window as the published client has them: the number of the packet behind it, and
  // that one's values. Also when the result is on its way (else only while the entry fills), and, with
  // `old_timers`, in later operations.
  bool timers_one_too_high = false, timers_behind_the_result = false, old_timers = false;
  std::uint8_t starts_again =
      0;              // all clients are killed and begin with operation 0 and other values, so often
  bool reset = true;  // ... after the session was begun anew
};

class SessionModel {
 public:
  static constexpr std::size_t kMembers = 3, kOperations = 4, kSlots = 2;

  struct Slot {                                                   // of both sets, as the registers have them
    std::array<std::uint8_t, 2> used{}, chunk{}, contributors{};  // opaque: chunk[0] has the flags
    std::array<std::uint8_t, 2> epoch{};
    std::array<std::uint16_t, 2> operation{};
    // Whose packet is in the sum; kTwice is more than one of a member's.
    std::array<std::array<std::uint8_t, kMembers>, 2> values{};
  };
  struct Client {
    std::uint8_t operation = 0;
    std::uint8_t sent = 0, answered = 0, coming = 0;  // bits of packets of this operation; coming: results
  };
  struct State {
    std::array<Slot, kSlots> slots{};
    std::array<Client, kMembers> clients{};
    std::array<std::uint8_t, kOperations> results{};  // that were ever sent, bits of packets
    std::uint16_t newest = 0;
    std::uint8_t vouched = 0, life = 0, epoch = 0, wrong = 0;
  };

  explicit SessionModel(SessionCase c);

  [[nodiscard]] State init() const { return {}; }
  [[nodiscard]] const char* broken(const State& s) const;
  [[nodiscard]] bool reached(const State& s) const;
  template <class Emit>
  void successors(const State& s, Emit emit) const {
    std::vector<Next> all;
    list(s, all);
    for (const Next& next : all) emit(next.state, Step{.fair = next.fair});
  }

 private:
  static constexpr std::uint8_t kTwice = 255;

  struct Next {
    State state;
    bool fair;
  };
  struct Packet {
    std::uint8_t rank, operation, tsi;  // as its header says
    std::uint8_t place_of;              // the packet in whose place it is
  };
  struct Place {
    std::size_t slot, set;
  };
  struct Outcome {
    bool complete = false, repeat = false;
  };

  [[nodiscard]] Place place_of(const Packet& packet) const;
  [[nodiscard]] static std::uint8_t value_of(const State& s, std::uint8_t operation, std::uint8_t tsi);
  [[nodiscard]] bool may_send(const Client& client, std::uint8_t packet) const;
  [[nodiscard]] bool fills(const State& s, const Packet& packet) const;
  Outcome take(State& s, const Packet& packet) const;
  void send_result(State& s, const Packet& request, std::uint8_t to, bool at_once) const;
  void receive(State& s, std::uint8_t rank, std::uint8_t packet) const;
  void arrive(State& s, const Packet& packet, bool at_once) const;
  void list(const State& s, std::vector<Next>& all) const;
  void list_member(const State& s, std::uint8_t rank, std::vector<Next>& all) const;
  void list_published_timers(const State& s, std::uint8_t rank, std::vector<Next>& all) const;
  void list_replays(const State& s, std::uint8_t rank, std::vector<Next>& all) const;

  SessionCase case_;
  std::vector<std::uint8_t> first_;  // of each operation, in the sequence of all
  jobs::SessionJob job_;
};

}  // namespace tally::models
