#pragma once
// One data core's pipeline: frame in, verdict and rewritten packet out. Pure: no clock, no I/O, no packet
// memory of its own. Execution is Fused or Staged. Everything here belongs to the owner core, except the
// counters and times that control reads.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "jobs/binding.h"
#include "jobs/job_table.h"
#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "pipeline/frame.h"
#include "pipeline/job_state.h"
#include "pipeline/pool.h"
#include "pipeline/program.h"
#include "pipeline/punt_gate.h"
#include "pipeline/rate_gate.h"
#include "pipeline/recognise.h"
#include "pipeline/reply.h"
#include "pipeline/shared_slots.h"
#include "server/merge_table.h"
#include "tally/check.h"
#include "tally/counters.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::pipeline {

// What the first pass found out: everything that needs no register. Valid until the frame or the table
// changes.
struct Parsed {
  Kind kind = Kind::kBad;
  Drop drop{};                     // kBad
  bool reject = false;             // kBad: answer by REJECT (kJob or kEpoch)
  std::uint64_t known_sender = 0;  // kBad: the bit of the worker that sent it; 0: nobody can tell
  PacketType type{};               // kControl, kNative
  std::uint8_t owner = 0;          // kElsewhere: the core that owns the slot
  const jobs::Job* job = nullptr;  // nullptr: matched no job
  std::byte* payload = nullptr;
  std::uint32_t payload_bytes = 0;
  Contribution contribution;

  // sender: of a worker that showed that it is one, its bit.
  void refuse(Drop why, std::uint64_t sender = 0) noexcept {
    kind = Kind::kBad;
    drop = why;
    known_sender = sender;
  }
  // The bit of the worker that sent it, and not somebody in its name; 0: a server, or nobody can tell.
  [[nodiscard]] std::uint64_t sender() const noexcept {
    if (kind == Kind::kBad) return known_sender;
    if (kind != Kind::kNative) return 0;
    if (type == PacketType::kContribute || type == PacketType::kZeroRun)
      return 1ULL << contribution.number % kMaxRanks;  // bit may be another's
    return type == PacketType::kQuery || type == PacketType::kAnswer ? contribution.bit : 0;
  }
  // Did it match, and is it this core's? Then handle() runs a program.
  [[nodiscard]] bool runs() const noexcept { return kind >= Kind::kNative; }
  // What `job` is, by `kind`.
  [[nodiscard]] const jobs::NativeJob& native() const noexcept {
    TALLY_DCHECK(kind == Kind::kNative || kind == Kind::kAbove, "a native packet matched a native job");
    return static_cast<const jobs::NativeJob&>(*job);
  }
  [[nodiscard]] const jobs::SessionJob& session() const noexcept {
    TALLY_DCHECK(kind == Kind::kSession, "a session's packet matched a session");
    return static_cast<const jobs::SessionJob&>(*job);
  }
};

// The match stage: job, epoch, rank, cookie, binding, contributors and slot of a well-formed data packet,
// against the immutable snapshot. Fills job, contribution, kind and drop of `parsed`. No register is touched.
void match_job(Parsed& parsed, const Header& h, const jobs::Binding& source, const jobs::JobTable* table,
               const jobs::SharedRegion& shared, std::uint8_t core, bool vouched) noexcept;

// The job whose worker or server sent it, by epoch, secret and binding; nullptr: a stranger.
[[nodiscard]] const jobs::NativeJob* job_of_member(const Header& h, const jobs::Binding& source,
                                                   const jobs::JobTable* table) noexcept;

// The racked job whose parent's control sent it, by epoch, secret and binding; nullptr: it is another's.
[[nodiscard]] const jobs::NativeJob* job_of_parent(const Header& h, const jobs::Binding& source,
                                                   const jobs::JobTable& table) noexcept;

// What a parent's data core says to the rack's box, matched as match_job() does the members'. job: its row.
void match_above(Parsed& parsed, const Header& h, const jobs::NativeJob& job, std::uint8_t core,
                 bool vouched) noexcept;

inline constexpr std::uint8_t kNoServer = 0xFF;
inline constexpr std::uint8_t kToParent = 0xFE;

// What the caller must do with the packet. The payload (header included) starts at `payload` and has
// `payload_bytes`; the caller puts the receivers' encapsulation in front of it.
struct Outcome {
  Verdict verdict = Verdict::kDrop;
  Drop drop{};
  std::uint8_t owner = 0;   // kHandOver: to that core
  bool session = false;     // kComplete, kRepeat: of a session; it goes along return_paths()
  bool member = false;      // kPunt: of one who showed that it is a member, in the job's epoch
  Rank to{};                // kRelay, kTell: the receiver
  std::uint64_t ranks = 0;  // kComplete, kRepeat: bitmap of the receivers of the RESULT
  // kComplete, kRepeat: whose RESULT it is, with shared slots perhaps another's.
  const jobs::Job* job = nullptr;
  // Set: the packet goes to the parent of `job` (kToParent), or to this server of it, whatever the verdict (kBypass, kEvict, kAbsorb, kRelay),
  // and waits for it in the queue of its priority.
  std::uint8_t server = kNoServer;
  std::uint8_t priority = 0;
  std::byte* payload = nullptr;
  std::uint32_t payload_bytes = 0;
  // A header-only packet beside it, back to where this one came from: Drop(job), Drop(epoch) and a QUERY to a
  // peer whose chunk is filling, within the rate limit. Build it with write_reject before the frame is
  // reused.
  bool reject = false;
  RejectReason reject_reason{};
  std::uint64_t reject_contributors = 0;
  bool nack = false;  // likewise, whatever the verdict: Pipeline::nack(), by write_nack

  // `job`, where only a native one can be.
  [[nodiscard]] const jobs::NativeJob& native() const noexcept {
    TALLY_DCHECK(!session, "not of a session");
    return static_cast<const jobs::NativeJob&>(*job);
  }
};

struct SharedRuling;

// Complete entries whose RESULTs have not left yet.
struct OwedResults {
  const jobs::NativeJob* job = nullptr;
  Chunk first{};
  std::uint64_t chunks = 0;                // bit i: first + i x shards
  std::array<std::uint32_t, 64> before{};  // of each, what finish() said
};

struct PipelineOptions {
  std::uint8_t core = 0;  // index among the data cores: owns the slots with slot mod shards = core
  jobs::Box box;
  jobs::SharedRegion shared{};  // at the end of the slot memory
  jobs::Region server{};        // memory of the embedded server, zeroed or not; outlives the pipeline
  std::uint64_t key = 0;        // nobody outside knows it: of the tables of sources
};

template <class Exec>
class Pipeline {
 public:
  // region: zeroed, outlives the pipeline. kernels: usable on this CPU.
  Pipeline(const PipelineOptions& options, jobs::Region region, const kernels::Kernels& kernels);

  // Takes up a snapshot, between bursts. It must live until the next adopt() returned.
  void adopt(const jobs::JobTable* table) noexcept;

  // First pass over a burst: parse, check, match, and what the second will need is on its way. Changes
  // nothing but `parsed`, of as many as the frames.
  void parse(std::span<const Frame> frames, std::span<Parsed> parsed) const noexcept;
  // The same of one frame by the gates alone, without asking whether a template knows it.
  void judge(const Frame& frame, Parsed& parsed) const noexcept;
  // Second pass: registers and reply, as parsed, from packet `first` on. Counts each packet in exactly one
  // counter. Returns the first of which there is more to say than that it was added and nothing leaves,
  // which `out` does; frames.size(): there was none.
  std::size_t handle(std::span<const Frame> frames, std::span<Parsed> parsed, std::size_t first, TimeNs now,
                     Outcome& out) noexcept;

  // A burst of one packet.
  void parse(const Frame& frame, Parsed& parsed) const noexcept { parse({&frame, 1}, {&parsed, 1}); }
  Outcome handle(Parsed& parsed, const Frame& frame, TimeNs now) noexcept {
    Outcome out;
    return handle({&frame, 1}, {&parsed, 1}, 0, now, out) == 0 ? out : outcome(parsed, Verdict::kAbsorb);
  }
  Outcome process(const Frame& frame, TimeNs now) noexcept {
    Parsed parsed;
    parse(frame, parsed);
    return handle(parsed, frame, now);
  }

  // The age sweep: looks at a few entries and says whether one is there that has waited for too long. If so,
  // sweep() finishes it without its stragglers, or moves the shared one to the server. A RESULT that comes of
  // it lies behind a header at `payload`, which has room for a whole datagram of the shared region and of any
  // job with stragglers. Otherwise kDrop. sweeps(): whether there is anything to look at.
  [[nodiscard]] bool sweeps() const noexcept { return options_.shared.entries != 0 || !late_.empty(); }
  [[nodiscard]] bool aged(TimeNs now) noexcept;
  Outcome sweep(std::span<std::byte> payload, TimeNs now) noexcept;

  // Results of chunks that the last packet, a zero run, has finished and that are not told by what it became: to be
  // asked for before the next packet is handled, or its members have to. Each lies behind a header at `payload`, as
  // that of sweep(); kDrop: there was no room for it.
  [[nodiscard]] bool owes() const noexcept { return owed_.chunks != 0; }
  Outcome owed(std::span<std::byte> payload) noexcept;

  // Wipes a range that `job` gives back, before it belongs to another job: its filling entries (of `elements`
  // each, behind in_front lines, from lines.first) leave the job's occupancy. members: bitmap of all its
  // ranks.
  void release(JobId job, jobs::LineRange lines, std::uint32_t elements, std::uint64_t members,
               std::uint32_t in_front = 1) noexcept;

  // Events since the last call, oldest first; empty most of the time.
  [[nodiscard]] EventQueue& events() noexcept { return events_; }

  [[nodiscard]] const JobState& state(JobId id) const noexcept { return states_[raw(id)]; }
  [[nodiscard]] const server::MergeCounters& server() const noexcept { return server_.counters(); }
  [[nodiscard]] const SharedSlots& shared() const noexcept { return slots_; }
  // Row 0: packets that matched no job.
  [[nodiscard]] const JobCounters& counters(JobId id) const noexcept { return counters_[raw(id)]; }
  [[nodiscard]] Exec& execution() noexcept { return exec_; }
  // What the last packet's Outcome::nack tells its sender.
  [[nodiscard]] const Nack& nack() const noexcept { return nack_; }
  // By rank, where the result goes that the last packet became, if that was a session's: of the receivers in
  // Outcome::ranks.
  [[nodiscard]] const ReturnPaths& return_paths() const noexcept { return paths_; }

 private:
  void parse_one(const Frame& frame, Parsed& parsed) const noexcept;
  void parse_other(const Frame& frame, Parsed& parsed) const noexcept;
  // False: no template knows it. halves: Recogniser::know.
  template <bool halves>
  bool parse_known(const Frame& frame, Parsed& parsed) const noexcept;
  void prefetch_entry(const Parsed& parsed) const noexcept;
  bool handle_one(Parsed& parsed, const Frame& frame, TimeNs now, Outcome& out) noexcept;
  Outcome drop(const Parsed& parsed, const Frame& frame, Drop why, TimeNs now) noexcept;
  void accuse(const Parsed& parsed, TimeNs now) noexcept;
  bool exceeds(const Parsed& parsed, const jobs::RateLimits& limits, const Frame& frame, TimeNs now,
               Outcome& out) noexcept;
  Outcome handle_other(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome handle_native(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome punt(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome contribute(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome conclude_pool(Parsed& parsed, const Frame& frame, Ruling ruling, const Mismatch& why, bool suspect,
                        TimeNs now) noexcept;
  void report(const jobs::NativeJob& job, const Contribution& p, Drop why, const Mismatch& other,
              bool suspect) noexcept;
  [[nodiscard]] Found find(const jobs::NativeJob& job, Contribution& p) noexcept;
  Outcome ask(const Parsed& parsed, Outcome out) noexcept;
  Outcome ask_peer(const Parsed& parsed, Outcome out) noexcept;
  Outcome ask_server(const Parsed& parsed, Outcome out) noexcept;
  Outcome contribute_session(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  void report_stall(const Parsed& parsed, const SessionPacket& s, Drop why) noexcept;
  // Of jobs whose members leave out rows, or send zero runs (zero_runs.h).
  [[gnu::noinline]] static std::uint32_t shorten(Contribution& p) noexcept;
  Outcome contribute_run(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  [[nodiscard]] std::optional<Drop> refuse_run(const jobs::NativeJob& job, const Contribution& run,
                                               const Header& h,
                                               std::span<const std::byte> exponents) const noexcept;
  // Of racked jobs (racks.h).
  [[nodiscard]] bool judge_above(Parsed& parsed, const OpenedFrame& datagram, const Header& h,
                                 const Frame& frame) const noexcept;
  Outcome contribute_in_rack(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome handle_above(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome take_result(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome tell_in_rack(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome ask_above(const Parsed& parsed, TimeNs now) noexcept;
  Outcome answer_above(const Parsed& parsed, TimeNs now) noexcept;
  Outcome contribute_late(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  // Of jobs with stragglers: an entry that is due, and its result without those who are missing.
  [[nodiscard]] bool find_late(TimeNs now) noexcept;
  Outcome finish_late(std::span<std::byte> payload) noexcept;
  Outcome contribute_shared(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  // p, whose values lie at parsed.contribution.values, goes to the embedded server of `job`.
  server::MergeResult serve(const jobs::NativeJob& job, Contribution& p, TimeNs now) noexcept;
  server::MergeResult serve_along(const jobs::NativeJob& job, Contribution& p,
                                  const server::MergeResult& otherwise, TimeNs now) noexcept;
  const jobs::NativeJob* take_out(std::uint32_t entry, Contribution& p) noexcept;
  [[nodiscard]] std::uint64_t seen_of(const jobs::NativeJob& job, const Contribution& p) noexcept;
  [[nodiscard]] std::uint32_t entry_of(const jobs::NativeJob& job, const Contribution& p) noexcept;
  [[nodiscard]] bool is_within_span(const jobs::NativeJob& job, Chunk chunk) noexcept;
  void free_entry(std::uint32_t entry, JobState& state) noexcept;
  Outcome depart(Parsed& parsed, const SharedRuling& ruling, const Frame& frame, TimeNs now) noexcept;
  Outcome partial_of(const jobs::NativeJob& job, const Contribution& p, std::byte* payload) noexcept;
  Outcome relay_from_server(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome flush(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  // Counts a server's packet that was not dropped.
  Outcome conclude_server(const Parsed& parsed) noexcept;
  Outcome query(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  Outcome tell(Parsed& parsed, const Found& found, TimeNs now) noexcept;
  [[gnu::noinline]] void note_missing(const Parsed& parsed, Outcome& out) noexcept;
  Outcome answer(Parsed& parsed, const Frame& frame, TimeNs now) noexcept;
  void count(const Parsed& parsed, Verdict verdict, bool fresh, TimeNs now) noexcept;
  static Outcome outcome(const Parsed& parsed, Verdict verdict) noexcept;
  Outcome conclude(const Parsed& parsed, Verdict verdict, bool fresh, TimeNs now) noexcept;

  Exec exec_;
  SharedSlots slots_;
  server::MergeTable server_;
  const kernels::Kernels* kernels_;
  PipelineOptions options_;
  Recogniser recogniser_;
  const jobs::JobTable* table_ = nullptr;
  std::unique_ptr<JobState[]> states_;
  std::unique_ptr<JobCounters[]> counters_;
  jobs::SourceLimiter rejects_;  // 10 a second and source
  PuntGate punts_;
  RateGate rates_;
  EventQueue events_;
  std::uint32_t asks_ = 0;         // of peers, for lost results
  std::uint32_t aged_ = kNoEntry;  // found by aged(), for sweep()
  LateSweep late_;
  ReturnPaths paths_{};
  Nack nack_;
  OwedResults owed_;
};

}  // namespace tally::pipeline
