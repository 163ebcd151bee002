#include "fixture_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

#include "agree.h"
#include "pipeline/fused.h"
#include "pipeline/pipeline.h"
#include "pipeline/reply.h"
#include "pipeline/staged.h"
#include "tally/wire.h"

namespace tally::fixture {
namespace {

// The frame in a heap block of exactly its size and room, so that AddressSanitizer sees every byte too many.
struct Buffer {
  explicit Buffer(const Packet& p)
      : bytes(std::make_unique<std::byte[]>(p.frame.size() + p.room)),
        frame{.data = bytes.get(),
              .length = static_cast<std::uint32_t>(p.frame.size()),
              .capacity = static_cast<std::uint32_t>(p.frame.size() + p.room),
              .port = p.port,
              .single_segment = p.segments == 1,
              .checksum_good = p.vouched} {
    std::copy(p.frame.begin(), p.frame.end(), bytes.get());
  }
  std::unique_ptr<std::byte[]> bytes;
  pipeline::Frame frame;
};

std::string text(const pipeline::Outcome& out, char between) {
  if (out.verdict != Verdict::kDrop) return std::string(name_of(out.verdict));
  return "drop" + std::string(1, between) + std::string(name_of(out.drop));
}
std::string number(std::uint64_t value) { return std::to_string(value); }
std::string digits(std::uint64_t value, std::size_t width) {
  std::array<std::byte, 8> big{};
  for (std::size_t i = 0; i < 8; ++i) big[i] = static_cast<std::byte>(value >> (56 - 8 * i));
  return hex(big.data(), 8).substr(16 - width);
}
std::string text(const jobs::Shape& s) {
  return number(s.elements) + "/" + number(s.dtype) + "/" + number(s.total);
}
std::string text(const pipeline::Event& e) {
  const std::string head = "event " +
                           std::string(e.kind == pipeline::EventKind::kMismatch ? "mismatch" : "poisoned") +
                           " job=" + number(raw(e.job)) + " epoch=" + digits(raw(e.epoch), 8) +
                           " chunk=" + number(raw(e.chunk)) + " rank=" + number(raw(e.rank));
  if (e.kind != pipeline::EventKind::kMismatch) return head;
  return head + " others=" + digits(e.others, 16) + " sent=" + text(e.sent) + " stored=" + text(e.stored);
}

std::string framed(const jobs::Binding& to, const jobs::Box& box, std::uint16_t source_port,
                   std::span<const std::byte> payload, std::uint16_t fragment = pipeline::kDontFragment) {
  std::vector<std::byte> head(pipeline::encapsulation_bytes(to));
  pipeline::write_encapsulation(head, to, box, source_port, payload, fragment);
  return "port=" + number(raw(to.port)) + " : " + hex(head.data(), head.size()) +
         hex(payload.data(), payload.size());
}

Header header_at(const std::byte* datagram) {
  Header h;
  std::memcpy(&h, datagram, sizeof h);
  return h;
}

template <class Exec>
class Runner {
 public:
  Runner(const Case& c, const kernels::Kernels& kernels)
      : case_(c),
        kernels_(kernels),
        memory_(c.plan->lines),
        pipeline_({.core = c.core, .box = c.plan->box}, jobs::Region(memory_), kernels) {}

  std::vector<std::string> run() {
    for (const CaseStep& step : case_.steps) take(step);
    return std::move(differences_);
  }

 private:
  // Everything that a packet may change and that can be seen from outside.
  struct Snapshot {
    std::vector<JobCounters> counters;
    std::map<std::uint32_t, pipeline::JobState> states;
    std::vector<jobs::Line> memory;     // fused
    std::vector<pipeline::Head> heads;  // staged
  };

  void take(const CaseStep& step) {
    switch (step.kind) {
      case StepKind::kTable: {
        auto table = std::make_shared<const jobs::JobTable>();
        for (const auto& name : step.jobs) {
          const jobs::Row& job = case_.plan->jobs.at(name);
          table = table->with(jobs::job_of(job)->id, job);
        }
        pipeline_.adopt(table.get());
        tables_.push_back(std::move(table));
        break;
      }
      case StepKind::kRelease: {
        const jobs::Job& job = *jobs::job_of(case_.plan->jobs.at(step.jobs.at(0)));
        pipeline_.release(job.id, job.slots, job.elements, job.members);
        break;
      }
      case StepKind::kSetup:
        setup(step);
        break;
      case StepKind::kIn:
        compare(step, observe(step.packet));
        break;
    }
  }

  void setup(const CaseStep& step) {
    Packet p = step.packet;
    for (std::uint32_t i = 0; i < p.times; ++i) {
      const Buffer buffer(p);
      const std::string got = text(process(buffer.frame, p.ms * kMillisecond), ':');
      while (pipeline_.events().pop()) {
      }
      if (got != step.verdict)
        differences_.push_back("line " + number(static_cast<std::uint64_t>(step.line)) + ", setup " +
                               number(i) + ": " + got + " instead of " + step.verdict);
      for (const auto& [offset, addend] : p.steps) {
        Be<std::uint32_t> word;
        std::memcpy(&word, p.frame.data() + offset, sizeof word);
        word = Be{word.host() + addend};
        std::memcpy(p.frame.data() + offset, &word, sizeof word);
      }
      if (p.header_at == 0) continue;
      std::byte* const header = p.frame.data() + p.header_at;
      const Be check{kernels_.crc32c(header, kCheckedBytes)};
      std::memcpy(header + kCheckedBytes, &check, sizeof check);
    }
  }

  // One Parsed for all packets, as in a burst: nothing may be left in it from the packet before.
  pipeline::Outcome process(const pipeline::Frame& frame, TimeNs now) {
    if (!template_agrees_with_gates(pipeline_, frame))
      differences_.emplace_back("known by its template as what the gates say it is not");
    pipeline_.parse(frame, parsed_);
    return pipeline_.handle(parsed_, frame, now);
  }

  Snapshot snapshot() {
    Snapshot s;
    for (std::uint32_t id = 0; id <= kMaxJobs; ++id) {
      s.counters.push_back(pipeline_.counters(static_cast<JobId>(id)));
    }
    for (const auto& [name, row] : case_.plan->jobs) {
      const JobId id = jobs::job_of(row)->id;
      s.states[raw(id)] = pipeline_.state(id);
    }
    if constexpr (std::is_same_v<Exec, pipeline::Fused>) {
      s.memory = memory_;
    } else {
      for (std::uint32_t i = 0; i < memory_.size(); ++i) s.heads.push_back(pipeline_.execution().head(i));
    }
    return s;
  }

  std::vector<std::string> observe(const Packet& p) {
    const TimeNs now = p.ms * kMillisecond;
    const Snapshot before = snapshot();
    const Buffer buffer(p);
    const pipeline::Outcome out = process(buffer.frame, now);
    const Snapshot after = snapshot();

    std::vector<std::string> seen{"verdict " + text(out, ' ')};
    counters(before, after, seen);
    frames(out, seen);
    while (pipeline_.owes()) {
      std::vector<std::byte> datagram(kHeaderBytes + std::size_t{4} * out.job->elements);
      frames(pipeline_.owed(datagram), seen);
    }
    if (out.reject) seen.push_back("reject " + reject(out, buffer.frame));
    if (out.nack) seen.push_back("nack " + nack(buffer.frame));
    if (out.verdict == Verdict::kHandOver) seen.push_back("owner " + number(out.owner));
    leases(before, after, now, seen);
    while (const auto event = pipeline_.events().pop()) seen.push_back(text(*event));
    states(out, before, after, seen);
    if (!may_write(out) && !same_memory(before, after)) seen.emplace_back("slot memory changed");
    const bool untouched = out.verdict == Verdict::kForward || out.verdict == Verdict::kPunt ||
                           out.verdict == Verdict::kHandOver;
    if (untouched && !std::equal(p.frame.begin(), p.frame.end(), buffer.frame.data))
      seen.emplace_back("the frame changed");
    return seen;
  }

  [[nodiscard]] bool is_session(const jobs::Job* job) const {
    return std::ranges::any_of(case_.plan->jobs, [job](const auto& named) {
      return job != nullptr && jobs::row_as<jobs::SessionJob>(named.second) == job;
    });
  }
  [[nodiscard]] bool may_write(const pipeline::Outcome& out) const {
    return out.server == pipeline::kToParent || out.verdict == Verdict::kAbsorb ||
           out.verdict == Verdict::kComplete ||
           (out.verdict == Verdict::kDrop && out.drop == Drop::kBadSum) ||
           // A session's member renews where its reply goes.
           (is_session(out.job) && (out.verdict == Verdict::kRepeat || out.drop == Drop::kDuplicate));
  }
  static bool same_memory(const Snapshot& a, const Snapshot& b) {
    const auto same_head = [](const pipeline::Head& x, const pipeline::Head& y) {
      return x.tag == y.tag && x.chunk == y.chunk && x.contributors == y.contributors;
    };
    const auto same_line = [](const jobs::Line& x, const jobs::Line& y) {
      return std::memcmp(&x, &y, sizeof x) == 0;
    };
    return std::equal(a.memory.begin(), a.memory.end(), b.memory.begin(), same_line) &&
           std::equal(a.heads.begin(), a.heads.end(), b.heads.begin(), same_head);
  }

  template <class Reason, std::size_t N>
  static void grown(std::uint32_t row, std::string_view kind,
                    const std::array<OneWriter<std::uint64_t>, N>& before,
                    const std::array<OneWriter<std::uint64_t>, N>& after, std::vector<std::string>& seen) {
    for (std::size_t i = 0; i < N; ++i) {
      if (before[i] == after[i]) continue;
      seen.push_back("counter job=" + number(row) + " " + std::string(kind) + "." +
                     std::string(name_of(static_cast<Reason>(i))) + " +" + number(after[i] - before[i]));
    }
  }
  static void counters(const Snapshot& before, const Snapshot& after, std::vector<std::string>& seen) {
    for (std::uint32_t row = 0; row <= kMaxJobs; ++row) {
      grown<Verdict>(row, "verdict", before.counters[row].verdicts, after.counters[row].verdicts, seen);
      grown<Drop>(row, "drop", before.counters[row].drops, after.counters[row].drops, seen);
    }
  }

  static std::uint16_t source_port(const jobs::NativeJob& job, Chunk chunk) {
    return static_cast<std::uint16_t>(kBasePort + raw(chunk) % job.window % job.shards);
  }

  void frames(const pipeline::Outcome& out, std::vector<std::string>& seen) {
    const auto to_rank = [&](std::uint16_t rank) {
      const std::span payload(out.payload, out.payload_bytes);
      if (out.session) {
        jobs::Binding to = out.job->ranks.at(rank).binding;
        const pipeline::ReturnPath path = pipeline_.return_paths().at(rank);
        const std::uint16_t source = std::exchange(to.udp_port, path.udp_port);
        to.port = path.port;
        seen.push_back("out rank=" + number(rank) + " " + framed(to, case_.plan->box, source, payload, 0));
        return;
      }
      seen.push_back("out rank=" + number(rank) + " " +
                     framed(out.job->ranks.at(rank).binding, case_.plan->box,
                            source_port(out.native(), header_at(out.payload).chunk_id()), payload));
    };
    if (out.server == pipeline::kToParent) {
      const jobs::Parent& parent = out.native().parent;
      jobs::Binding to = parent.binding;
      const auto chunk = header_at(out.payload).chunk_id();
      to.udp_port = static_cast<std::uint16_t>(kBasePort + jobs::shard_at(parent, chunk));
      seen.push_back("above " + framed(to, case_.plan->box, kBasePort, {out.payload, out.payload_bytes}));
      return;
    }
    if (out.verdict == Verdict::kRelay || out.verdict == Verdict::kTell) to_rank(raw(out.to));
    if (out.verdict != Verdict::kComplete && out.verdict != Verdict::kRepeat) return;
    for (std::uint64_t left = out.ranks; left != 0; left &= left - 1)
      to_rank(static_cast<std::uint16_t>(std::countr_zero(left)));
  }

  // Only who has shown that it is a member learns the result cookie.
  std::string reject(const pipeline::Outcome& out, const pipeline::Frame& frame) const {
    if (out.payload == nullptr) return "of a packet without a header";
    const bool waiting = out.reject_reason == RejectReason::kWaiting;
    Header refused = header_at(out.payload);
    if (waiting) refused.job = Be{raw(out.job->id)};  // what goes to a parent has another
    std::array<std::byte, kHeaderBytes> payload{};
    pipeline::write_reject(payload, refused, out.reject_reason, waiting ? out.job->result_cookie : Cookie{},
                           out.reject_contributors, kernels_);
    const auto port = waiting ? source_port(out.native(), refused.chunk_id())
                              : static_cast<std::uint16_t>(kBasePort + case_.core);
    return framed(pipeline::open_frame(frame, case_.plan->box).source, case_.plan->box, port, payload);
  }

  std::string nack(const pipeline::Frame& frame) const {
    std::array<std::byte, kHeaderBytes> payload{};
    pipeline::write_nack(payload, pipeline_.nack(), case_.core, kernels_);
    return framed(pipeline::open_frame(frame, case_.plan->box).source, case_.plan->box,
                  static_cast<std::uint16_t>(kBasePort + case_.core), payload);
  }

  static void leases(const Snapshot& before, const Snapshot& after, TimeNs now,
                     std::vector<std::string>& seen) {
    for (const auto& [id, state] : after.states) {
      for (std::uint32_t rank = 0; rank < kMaxRanks; ++rank) {
        if (state.last_seen[rank] == before.states.at(id).last_seen[rank]) continue;
        seen.push_back("seen job=" + number(id) + " rank=" + number(rank) +
                       (state.last_seen[rank] == now ? "" : " at another time"));
      }
    }
  }

  static void states(const pipeline::Outcome& out, const Snapshot& before, const Snapshot& after,
                     std::vector<std::string>& seen) {
    for (const auto& [id, state] : after.states) {
      const pipeline::JobState& old = before.states.at(id);
      const bool ours = out.job != nullptr && raw(out.job->id) == id;
      if (ours || state.occupancy != old.occupancy)
        seen.push_back("occupancy job=" + number(id) + " " +
                       std::to_string(static_cast<std::int32_t>(state.occupancy.get())));
      if (ours || state.overflows != old.overflows)
        seen.push_back("overflows job=" + number(id) + " " + number(state.overflows));
    }
  }

  void compare(const CaseStep& step, const std::vector<std::string>& seen) {
    const std::string where = "line " + number(static_cast<std::uint64_t>(step.line)) + ": ";
    for (const auto& line : step.expected) {
      if (std::count(seen.begin(), seen.end(), line) !=
          std::count(step.expected.begin(), step.expected.end(), line))
        differences_.push_back(where + "expected " + line);
    }
    for (const auto& line : seen) {
      if (std::count(step.expected.begin(), step.expected.end(), line) == 0)
        differences_.push_back(where + "saw      " + line);
    }
  }

  const Case& case_;
  const kernels::Kernels& kernels_;
  std::vector<jobs::Line> memory_;
  pipeline::Pipeline<Exec> pipeline_;
  pipeline::Parsed parsed_;
  std::vector<std::shared_ptr<const jobs::JobTable>> tables_;
  std::vector<std::string> differences_;
};

}  // namespace

template <class Exec>
std::vector<std::string> run_case(const Case& c, const kernels::Kernels& kernels) {
  return Runner<Exec>(c, kernels).run();
}
template std::vector<std::string> run_case<pipeline::Fused>(const Case&, const kernels::Kernels&);
template std::vector<std::string> run_case<pipeline::Staged>(const Case&, const kernels::Kernels&);

}  // namespace tally::fixture
