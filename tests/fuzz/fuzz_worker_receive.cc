// Arbitrary and almost right datagrams into a joined worker engine with operations in flight. A twin engine
// gets all of them but the refused ones: the two must never differ, because a refused datagram changes one
// counter and nothing else. Values reach the program's memory only by RESULTs whose sums are right and which
// carry the secrets of the epoch.

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fuzz_input.h"
#include "tally/check.h"
#include "worker_scene.h"

namespace tally {
namespace {

constexpr int kMostOperations = 300;
constexpr std::size_t kMostKept = 256;

engine::EngineOptions options() {
  return {.job = "fuzz",
          .token = "token",
          .rank = kSelf,
          .world = kWorld,
          .elements = kElements,
          .instance = 77,
          .seed = 5,
          .rto_floor = kMillisecond};
}

class Session {
 public:
  explicit Session(FuzzInput in);
  void run();

 private:
  void operate();
  void program_acts(std::uint32_t what);
  Bytes honest(std::uint32_t what);
  Bytes result_of(const Bytes& contribution);
  void mutate(Bytes& datagram);
  void deliver(const Bytes& datagram);
  void check_believed(std::span<const std::byte> bytes,
                      const std::optional<engine::Membership>& membership) const;
  void transmit();
  void pass_time(TimeNs by);
  void rejoin_box();  // the box answers the newest JOIN, if one is outstanding
  void check_twins();
  const Bytes* some(const std::vector<Bytes>& list) {
    return list.empty() ? nullptr : &list[in_.half() % list.size()];
  }

  FuzzInput in_;
  Speaker box_;
  Program a_{options()};
  Program b_{options()};
  TimeNs now_ = kSecond;
  std::uint64_t nonce_ = 0;                         // of the newest JOIN
  std::uint64_t beaten_ = 0;                        // counter of the newest HEARTBEAT
  std::vector<std::vector<std::uint32_t>> memory_;  // as a_ may have left it
  std::vector<Bytes> contributions_;
  std::vector<Bytes> results_;  // honest ones, to be replayed
};

Session::Session(FuzzInput in) : in_(in) {
  constexpr std::array<std::uint32_t, 4> kFirst{0, 0xFFFFFFFD, 0x7FFFFFFE, 0x80000005};
  const std::uint8_t how = in_.byte();
  box_.first_chunk = kFirst[how % 4];
  box_.sparse = (how & 4) != 0;
  program_acts(0);
  program_acts(0);
  transmit();
  rejoin_box();
  transmit();
}

void Session::run() {
  for (int i = 0; i < kMostOperations && !in_.empty(); ++i) {
    operate();
    check_twins();
  }
  pass_time(0);
  pass_time(20 * kSecond);
}

void Session::operate() {
  const std::uint32_t what = in_.below(32);
  if (what < 20) {
    Bytes datagram = honest(what);
    if (what >= 6 && in_.flip()) mutate(datagram);
    return deliver(datagram);
  }
  if (what < 22) {  // all that was offered comes back
    const auto offered = contributions_;
    for (const Bytes& c : offered) deliver(box_.result_of(c));
    return transmit();
  }
  if (what < 25) return pass_time(TimeNs{in_.half()} * 100 * kMicrosecond);
  if (what < 28) return program_acts(in_.below(16));
  if (what < 30) return rejoin_box();
  if (what < 31) {  // the box starts again, perhaps in a new generation
    ++box_.epoch;
    if (in_.flip()) ++box_.generation;
    return;
  }
  transmit();
}

// Of a run also a part of it, or one of its chunks alone.
Bytes Session::result_of(const Bytes& contribution) {
  const Header h = header_of(contribution);
  if (h.type != PacketType::kZeroRun || in_.flip()) return box_.result_of(contribution);
  const std::uint64_t named = h.contributors.host();
  const std::uint32_t bit = in_.below(kMostOfRun);
  if ((named >> bit & 1) != 0) return box_.result_of_run(contribution, bit);
  Bytes some = contribution;
  Header part = h;
  part.contributors = Be{named & ((std::uint64_t{1} << bit) - 1)};
  std::memcpy(some.data(), &part, sizeof part);
  if (some.size() != kHeaderBytes) {
    const auto left = static_cast<std::size_t>(std::popcount(part.contributors.host()));
    some.resize(kHeaderBytes + (left + 3) / 4 * 4);
    std::fill(some.begin() + static_cast<std::ptrdiff_t>(kHeaderBytes + left), some.end(), std::byte{0});
  }
  return box_.result_of(some);
}

// What a box that means well sends, right or late.
Bytes Session::honest(std::uint32_t what) {
  const std::uint32_t chunk = box_.first_chunk + in_.byte();
  if (what < 8 || what == 18) {
    if (const Bytes* c = some(what % 4 == 3 ? results_ : contributions_)) {
      if (what % 4 == 3) return *c;
      Bytes result = result_of(*c);
      if (results_.size() < kMostKept) results_.push_back(result);
      return result;
    }
  }
  switch (what) {
    case 8:
    case 9:
      return box_.query(static_cast<std::uint16_t>(in_.below(kWorld)), chunk);
    case 10:
      return box_.reject(RejectReason::kWaiting, chunk, in_.byte());
    case 11:
      return in_.flip() ? box_.reject(RejectReason::kEpoch, chunk, 0) : box_.calls_back();
    case 12:
      return in_.flip() ? box_.reject(RejectReason::kJob, chunk, 0) : box_.knows_nothing_of(beaten_);
    case 13:
      return box_.tells(PacketType::kAbort, in_.take(in_.byte()));
    case 14:
      return box_.joined(static_cast<JoinStatus>(1 + in_.below(3)), nonce_, in_.take(in_.below(16)));
    case 15:
      return box_.tells(PacketType::kHeartbeat);
    case 16:
      return box_.tells(PacketType::kLeave);
    case 17:
      return box_challenges(nonce_, {in_.byte()});
    case 19:
      return box_.resend(in_.below(kMaxServers), chunk, bit_of(kSelf) | in_.byte());
    default: {
      const auto bytes = in_.take(in_.half() % 700);
      return {bytes.begin(), bytes.end()};
    }
  }
}

// A few bytes changed or the length; then perhaps the sums and the check made right again.
void Session::mutate(Bytes& datagram) {
  const std::uint8_t how = in_.byte();
  if ((how & 0x80) != 0) datagram.resize(datagram.size() + in_.byte() % 64);
  if ((how & 0x40) != 0)
    datagram.resize(datagram.size() - std::min<std::size_t>(datagram.size(), in_.byte()));
  for (std::uint32_t i = 0; i < (how & 3U) && !datagram.empty(); ++i) {
    // Mostly in the header and what follows it.
    const std::size_t at = in_.byte();
    datagram[at % datagram.size()] = std::byte{in_.byte()};
  }
  if ((how & 0x10) != 0 && datagram.size() > kHeaderBytes + 8) {  // sum1 stays right
    const std::size_t at = kHeaderBytes + in_.byte() % ((datagram.size() - kHeaderBytes) / 4 - 1) * 4;
    std::swap_ranges(&datagram[at], &datagram[at] + 4, &datagram[at + 4]);
  }
  if ((how & 0x20) != 0 && datagram.size() >= kHeaderBytes) {  // all right but one bit of what the box knows
    constexpr std::array<std::size_t, 4> kKnown{4, 6, 8, 32};  // job, rank, epoch, cookie
    const std::uint8_t bit = in_.byte();
    datagram[kKnown[bit >> 6] + (bit >> 3 & 1U)] ^= std::byte{static_cast<unsigned char>(1U << (bit & 7))};
  }
  if ((how & 4) != 0 && a_.engine().membership() && datagram.size() >= kHeaderBytes) {
    const engine::Membership& m = *a_.engine().membership();
    is_control(header_of(datagram).type) ? retag(datagram, m) : resum(datagram, m);
  }
  if ((how & 8) != 0) reseal(datagram);
}

void Session::deliver(const Bytes& datagram) {
  const EngineStatistics before = a_.engine().statistics();
  const auto membership = a_.engine().membership();
  // On the heap in its exact size.
  const auto copy = std::make_unique<std::byte[]>(datagram.size());
  if (!datagram.empty()) std::memcpy(copy.get(), datagram.data(), datagram.size());
  const std::span<const std::byte> bytes(copy.get(), datagram.size());
  a_.engine().receive(bytes, now_);

  const EngineStatistics& after = a_.engine().statistics();
  const std::uint64_t refused = after.refused_total() - before.refused_total();
  TALLY_CHECK(refused <= 1, "one counter for a refused datagram");
  const auto rose = [&](Refused r) { return after.of(r) != before.of(r); };
  const bool wrong_result = rose(Refused::kSum) || rose(Refused::kShape) || rose(Refused::kExponent);
  // The third wrong result of a chunk fails the operation, so they are remembered.
  if (refused == 0 || wrong_result) b_.engine().receive(bytes, now_);
  if (refused == 1) {
    EngineStatistics expected = before;
    expected.refused = after.refused;
    TALLY_CHECK(std::memcmp(&expected, &after, sizeof after) == 0, "a refused datagram changes nothing else");
  }
  if (refused == 0) check_believed(bytes, membership);
  if (after.results == before.results) {
    TALLY_CHECK(a_.memory() == memory_, "only results write to the program's memory");
    return;
  }
  memory_ = a_.memory();
  const Header h = header_of(bytes);
  const bool run = h.type == PacketType::kZeroRun;
  const auto most = run ? static_cast<unsigned>(std::popcount(h.contributors.host())) : 1U;
  TALLY_CHECK(refused == 0 && after.results <= before.results + most, "one result, or those of a run");
  TALLY_CHECK((run || h.type == PacketType::kResult) && h.rank_id() == kSwitchRank, "a RESULT from the box");
  TALLY_CHECK(run ? membership->sparse : h.contributors.host() == members_of(kWorld), "of all members");
  TALLY_CHECK((h.flags & kFlagSparse) == 0 || membership->sparse, "rows only where that was agreed");
  TALLY_CHECK(sums_right(bytes, *membership), "with right sums");
}

// A JOINED must echo the nonce, and bear the tag of who knows the token if it is not a refusal; a REJECT of a
// data core is but a hint; all else needs the epoch's secret, and what control says the session's tag.
void Session::check_believed(std::span<const std::byte> bytes,
                             const std::optional<engine::Membership>& membership) const {
  TALLY_CHECK(bytes.size() >= kHeaderBytes, "a header");
  const Header h = header_of(bytes);
  if (h.type == PacketType::kJoined) {
    JoinedPayload p;
    TALLY_CHECK(bytes.size() >= kHeaderBytes + sizeof p, "JOINED");
    std::memcpy(&p, bytes.data() + kHeaderBytes, sizeof p);
    TALLY_CHECK(p.nonce.host() == nonce_, "the newest JOIN's nonce");
    TALLY_CHECK(bytes.size() == kHeaderBytes + sizeof p + p.text_bytes.host() + kTagBytes, "JOINED's text");
    TALLY_CHECK(
        p.status == JoinStatus::kRefused || auth::verify(Speaker::job_key(), h, bytes.subspan(kHeaderBytes)),
        "the tag of who knows the token");
    return;
  }
  if (h.type == PacketType::kChallenge) {
    TALLY_CHECK(wire_at<ChallengePayload>(bytes.data() + kHeaderBytes).nonce.host() == nonce_,
                "the newest JOIN's nonce");
    return;
  }
  const bool rejoin =
      h.type == PacketType::kReject && h.slot.host() != static_cast<std::uint32_t>(RejectReason::kWaiting);
  const bool hint = rejoin && bytes.size() == kHeaderBytes;
  const bool answers = rejoin && h.slot.host() == static_cast<std::uint32_t>(RejectReason::kJob);
  TALLY_CHECK(membership.has_value() && h.job_id() == membership->job, "of this job");
  TALLY_CHECK(h.epoch_id() == membership->epoch, "of this epoch");
  if (!hint && (rejoin || is_control(h.type)))
    TALLY_CHECK(
        auth::verify(answers ? Speaker::job_key() : membership->session, h, bytes.subspan(kHeaderBytes)),
        "the tag");
  TALLY_CHECK(hint || answers || Cookie{h.cookie.host()} == membership->result_cookie,
              "with the result cookie");
  TALLY_CHECK(h.type == PacketType::kQuery || h.type == PacketType::kResend || h.rank_id() == kSwitchRank,
              "from the box");
  TALLY_CHECK(h.type != PacketType::kResend || server_index(h.rank_id()) < kMaxServers, "of a server");
}

void Session::transmit() {
  const auto sent = a_.transmit(now_);
  TALLY_CHECK(sent == b_.transmit(now_), "the twin sends the same");
  for (const Bytes& datagram : sent) {
    const Header h = header_of(datagram);
    TALLY_CHECK(h.rank_id() == kSelf, "in the own name");
    if (h.type == PacketType::kJoin) {
      JoinPayload p;
      std::memcpy(&p, datagram.data() + kHeaderBytes, sizeof p);
      nonce_ = p.nonce.host();
    }
    if (h.type == PacketType::kHeartbeat)
      beaten_ = wire_at<CountedPayload>(datagram.data() + kHeaderBytes).counter.host();
    const bool leaves_out = h.type == PacketType::kZeroRun || (h.flags & kFlagSparse) != 0;
    TALLY_CHECK(!leaves_out || a_.engine().membership()->sparse, "nothing is left out that was not agreed");
    if (h.type != PacketType::kContribute && h.type != PacketType::kZeroRun) continue;
    if (contributions_.size() >= kMostKept) contributions_.erase(contributions_.begin());
    contributions_.push_back(datagram);
  }
}

void Session::pass_time(TimeNs by) {
  const TimeNs end = now_ + by;
  // The caller's loop for as long as a fuzzer has patience; then one jump.
  for (int i = 0; i < 64 && now_ < end; ++i) {
    now_ = std::min(end, std::max(now_, a_.engine().deadline()));
    transmit();
  }
  now_ = end;
  transmit();
}

void Session::rejoin_box() {
  deliver(box_.joined(JoinStatus::kRunning, nonce_, {}));
  transmit();
}

void Session::program_acts(std::uint32_t what) {
  engine::WorkerEngine& a = a_.engine();
  engine::WorkerEngine& b = b_.engine();
  if (what == 13) {
    a.leave(now_);
    b.leave(now_);
  } else if (what == 14) {
    a.abort("tired", now_);
    b.abort("tired", now_);
  } else if (what == 15) {
    TALLY_CHECK(a.rejoin(now_).has_value() == b.rejoin(now_).has_value(), "the twin rejoins");
    contributions_.clear();
  } else if (a.pending_operations() < 8) {
    const std::uint8_t kind = in_.byte();
    const std::uint32_t elements = 1 + in_.half() % 800;
    const TimeNs deadline = (kind & 0x80) != 0 ? now_ + in_.byte() * 10 * kMillisecond : kNever;
    const std::uint32_t seed = in_.byte();
    a_.submit(kind % 5, elements, seed, now_, deadline);
    b_.submit(kind % 5, elements, seed, now_, deadline);
    memory_ = a_.memory();
  }
}

void Session::check_twins() {
  engine::WorkerEngine& a = a_.engine();
  engine::WorkerEngine& b = b_.engine();
  TALLY_CHECK(a.state() == b.state() && a.why_closed().what == b.why_closed().what, "the twin's state");
  TALLY_CHECK(a.deadline() == b.deadline(), "the twin's deadline");
  TALLY_CHECK(a.pending_operations() == b.pending_operations(), "the twin's operations");
  TALLY_CHECK(a.missing() == b.missing() && a.live() == b.live(), "the twin's ranks");
  EngineStatistics x = a.statistics();
  x.refused = b.statistics().refused;
  TALLY_CHECK(std::memcmp(&x, &b.statistics(), sizeof x) == 0, "the twin's statistics");
  TALLY_CHECK(a_.memory() == memory_ && b_.memory() == memory_, "the twin's results");
  while (const auto done = a.next_completion()) {
    const auto other = b.next_completion();
    TALLY_CHECK(other && other->id == done->id, "the twin's completion");
    TALLY_CHECK(other->result.has_value() == done->result.has_value(), "the twin's outcome");
    if (done->result) continue;
    const Error& error = done->result.error();
    // The text of an ABORT is the box's, and may be empty.
    TALLY_CHECK(error.code == ErrorCode::kAborted || !error.what.empty(), "a failure says why");
  }
  TALLY_CHECK(!b.next_completion(), "no completion of the twin alone");
}

}  // namespace
}  // namespace tally

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tally::Session(tally::FuzzInput(data, size)).run();
  return 0;
}
