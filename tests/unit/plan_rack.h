#pragma once
// A job over several boxes in one place: real pipelines, a server with the rules of docs/protocol_server.md, and
// workers that know no more than to send again. What comes of it is checked at the workers: each RESULT is the sum of
// all ranks. Anything may be lost on each of the four ways.

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "frames.h"
#include "jobs.h"
#include "pipeline/pipeline.h"
#include "plans.h"
#include "shared_core.h"

namespace tally {

enum class Way : std::uint8_t { kToBox, kToServer, kFromServer, kToWorker };

struct RackSpec {
  std::uint32_t window = 32;
  std::uint32_t entries = 64;  // of each box
  std::uint32_t chunks = 64;   // of the run
  bool asks = true;            // workers: questions (QUERY) between their repetitions, as a client may
};

template <class Exec>
class PlanRack {
 public:
  PlanRack(Plan plan, const RackSpec& spec) : plan_(std::move(plan)), spec_(spec) {
    forget_sequences();
    for (BoxIndex b = 0; b < plan_.boxes.size(); ++b) boxes_.push_back(make_box(b));
    results_.assign(plan_.world(), std::vector<std::uint32_t>(spec.chunks));
    tries_ = results_;
  }

  // May a packet of this type be lost on this way, now? None is, unless one says so.
  std::function<bool(Way, PacketType)> lost = [](Way, PacketType) { return false; };
  // Who offers nothing, for as long as its bit is set.
  std::uint64_t silent = 0;

  // All ranks offer what they lack, and time passes.
  void round() {
    for (std::uint32_t rank = 0; rank < plan_.world(); ++rank) {
      if ((silent >> rank & 1) != 0) continue;
      const std::uint32_t end = std::min(lowest(rank) + spec_.window, spec_.chunks);
      for (std::uint32_t chunk = lowest(rank); chunk < end; ++chunk)
        if (results_[rank][chunk] == 0) offer(rank, Chunk{chunk});
    }
    now_ += 20 * kMillisecond;
    for (Box& box : boxes_) sweep(box);
    remind();
  }
  // Rounds until everybody has everything; 0: not within `most`.
  int rounds(int most) {
    for (int i = 1; i <= most; ++i) {
      round();
      if (done()) return i;
    }
    return 0;
  }
  [[nodiscard]] bool done() const {
    for (std::uint32_t rank = 0; rank < plan_.world(); ++rank)
      if (lowest(rank) != spec_.chunks) return false;
    return true;
  }
  // It has its rows again, and knows nothing else.
  void restart(BoxIndex box) { boxes_[box] = make_box(box); }
  void server_forgets() { states_.clear(); }
  // How many RESULTs of the chunk came to the rank.
  [[nodiscard]] std::uint32_t results(std::uint32_t rank, std::uint32_t chunk) const {
    return results_[rank][chunk];
  }
  void forget_result(std::uint32_t rank, std::uint32_t chunk) { results_[rank][chunk] = 0; }
  [[nodiscard]] const jobs::NativeJob& row(BoxIndex box) const { return boxes_[box].row; }
  [[nodiscard]] const pipeline::Pipeline<Exec>& pipeline(BoxIndex box) const { return *boxes_[box].pipeline; }
  [[nodiscard]] const std::vector<std::uint64_t>& at_server(Chunk chunk) { return came_[raw(chunk)]; }

 private:
  struct Box {
    jobs::NativeJob row;
    std::unique_ptr<SlotMemory> memory;
    std::unique_ptr<pipeline::Pipeline<Exec>> pipeline;
    std::shared_ptr<const jobs::JobTable> table;
  };
  struct State {
    std::uint64_t ranks = 0;
    std::int32_t sum = 0;
    bool asked = false;
  };

  // The same epoch everywhere, under each box's own job id.
  Box make_box(BoxIndex index) {
    JobSpec spec{.id = static_cast<std::uint16_t>(index + 1),
                 .world = static_cast<std::uint8_t>(plan_.world()),
                 .window = spec_.window,
                 .servers = plan_.server_count,
                 .discipline = Discipline::kShared,
                 .shared_slots = spec_.entries,
                 .part = share_part(plan_, index)};
    Box box{.row = make_job(spec)};
    box.row.result_cookie = Cookie{77};
    const auto lines =
        static_cast<std::uint32_t>(box.row.slots.count + jobs::shared_lines(spec_.entries, 16));
    box.memory = std::make_unique<SlotMemory>(lines);
    box.pipeline = std::make_unique<pipeline::Pipeline<Exec>>(
        pipeline::PipelineOptions{
            .core = 0, .box = test_box(), .shared = jobs::shared_region(lines, spec_.entries, 16)},
        box.memory->region(), kernels::best_kernels());
    box.table = jobs::JobTable().with(box.row.id, std::make_shared<const jobs::NativeJob>(box.row));
    box.pipeline->adopt(box.table.get());
    return box;
  }

  [[nodiscard]] std::uint32_t lowest(std::uint32_t rank) const {
    std::uint32_t chunk = 0;
    while (chunk < spec_.chunks && results_[rank][chunk] != 0) ++chunk;
    return chunk;
  }
  [[nodiscard]] std::int32_t sum_of(std::uint64_t ranks, Chunk chunk) const {
    std::int32_t sum = 0;
    for (; ranks != 0; ranks &= ranks - 1)
      sum += value_of(static_cast<std::uint32_t>(std::countr_zero(ranks)), chunk);
    return sum;
  }
  [[nodiscard]] std::uint64_t members() const { return members_of(plan_.world()); }

  // A worker's n-th sending of a chunk: mostly the contribution.
  void offer(std::uint32_t rank, Chunk chunk) {
    const Rank r{static_cast<std::uint16_t>(rank)};
    const std::uint32_t n = tries_[rank][raw(chunk)]++;
    const BoxIndex box = plan_.route(r, chunk).box;
    if (spec_.asks && n % 4 == 3 && plan_.world() > 1) {
      const Rank peer{static_cast<std::uint16_t>((rank + 1 + n / 4 % (plan_.world() - 1)) % plan_.world())};
      Bytes query =
          n % 8 == 3 ? make_query(boxes_[box].row, r, chunk) : make_query(boxes_[box].row, r, chunk, peer);
      if (n % 16 == 3) set_flags(query, kFlagDirect);
      return to_box(box, r, query);
    }
    contribute(r, chunk, n == 0 ? 0 : kFlagRetransmit);
  }
  void contribute(Rank rank, Chunk chunk, std::uint8_t flags) {
    const BoxIndex box = plan_.route(rank, chunk).box;
    to_box(box, rank,
           make_contribution(boxes_[box].row,
                             {.rank = rank,
                              .chunk = chunk,
                              .values = std::vector<std::int32_t>(16, value_of(raw(rank), chunk)),
                              .flags = flags}));
  }
  static void set_flags(Bytes& datagram, std::uint8_t flags) {
    Header h = header_of(datagram);
    h.flags |= flags;
    set_header(datagram, h);
  }

  void to_box(BoxIndex box, Rank from, const Bytes& datagram) {
    const std::uint32_t server = server_index(from);
    const bool worker = raw(from) < plan_.world();
    if (lost(worker ? Way::kToBox : Way::kFromServer, header_of(datagram).type)) return;
    const jobs::Binding& source =
        worker ? boxes_[box].row.ranks[raw(from)].binding : boxes_[box].row.server_ranks.at(server).binding;
    ReceivedFrame frame(wrap(datagram, source, test_box(), kBasePort), source.port, true, 4 * kMaxElements);
    take(box, boxes_[box].pipeline->process(frame.frame(), now_));
  }
  void sweep(Box& box) {
    for (std::uint32_t i = 0; i <= 2 * spec_.entries; ++i) {
      if (!box.pipeline->aged(now_)) continue;
      Bytes swept(kHeaderBytes + 4 * 16);
      take(static_cast<BoxIndex>(&box - boxes_.data()), box.pipeline->sweep(swept, now_));
    }
  }
  // What the box does with a packet.
  void take(BoxIndex box, const pipeline::Outcome& out) {
    if (out.verdict == Verdict::kDrop) {
      ASSERT_TRUE(out.drop == Drop::kDuplicate || out.drop == Drop::kStale) << name_of(out.drop);
      return;
    }
    if (out.payload == nullptr) return;
    const Bytes payload(out.payload, out.payload + out.payload_bytes);
    const PacketType type = header_of(payload).type;
    if (out.server != pipeline::kNoServer) {
      ASSERT_EQ(out.server, plan_.server(header_of(payload).chunk_id()));
      if (!lost(Way::kToServer, type)) serve(payload);
      return;
    }
    std::uint64_t to = 0;
    if (out.verdict == Verdict::kComplete || out.verdict == Verdict::kRepeat) to = out.ranks;
    if (out.verdict == Verdict::kRelay || out.verdict == Verdict::kTell) to = bit_of(out.to);
    for (; to != 0; to &= to - 1)
      if (!lost(Way::kToWorker, type))
        hear(box, Rank{static_cast<std::uint16_t>(std::countr_zero(to))}, payload);
  }

  // What a worker does with one.
  void hear(BoxIndex box, Rank rank, const Bytes& datagram) {
    const Header h = header_of(datagram);
    ASSERT_EQ(h.cookie.host(), raw(boxes_[box].row.result_cookie));
    const Chunk chunk = h.chunk_id();
    ASSERT_LT(raw(chunk), spec_.chunks);
    std::uint32_t& has = results_[raw(rank)][raw(chunk)];
    const bool silenced = (silent >> raw(rank) & 1) != 0;
    if (h.type == PacketType::kResult) {
      ASSERT_EQ(h.contributors.host(), members());
      for (std::size_t i = 0; i < 16; ++i)
        ASSERT_EQ(static_cast<std::int32_t>(
                      wire_at<Be<std::uint32_t>>(datagram.data() + kHeaderBytes + 4 * i).host()),
                  sum_of(members(), chunk));
      ++has;
    } else if (h.type == PacketType::kQuery) {
      ASSERT_EQ(h.contributors.host(), bit_of(rank));
      if (has != 0 && !silenced) answer(box, rank, chunk, raw(h.rank_id()));
    } else if (h.type == PacketType::kResend) {
      ASSERT_NE(h.contributors.host() & bit_of(rank), 0U);
      if (silenced) return;
      if (has != 0) return answer(box, rank, chunk, raw(h.rank_id()));
      if (tries_[raw(rank)][raw(chunk)] != 0) contribute(rank, chunk, kFlagDirect | kFlagRetransmit);
    } else {
      ASSERT_EQ(h.type, PacketType::kReject);
    }
  }
  void answer(BoxIndex box, Rank rank, Chunk chunk, std::uint32_t asker) {
    const jobs::NativeJob& row = boxes_[box].row;
    Bytes out = make_contribution(row, {.rank = rank,
                                        .chunk = chunk,
                                        .values = std::vector<std::int32_t>(16, sum_of(members(), chunk)),
                                        .sequence = 1});
    Header h = header_of(out);
    h.type = PacketType::kAnswer;
    h.contributors = Be{members()};
    h.slot = Be{asker};
    h.sum1 = Be{h.sum1.host() - keyed(row.ranks[raw(rank)].key, chunk) + keyed(row.key_sum, chunk)};
    set_header(out, h);
    to_box(box, rank, out);
  }

  // What the servers do with one: docs/protocol_server.md, 11.7.
  void serve(const Bytes& datagram) {
    const Header h = header_of(datagram);
    const Chunk chunk = h.chunk_id();
    const std::uint64_t ranks = h.contributors.host();
    State& state = states_[raw(chunk)];
    if (h.type == PacketType::kQuery) {
      if (state.ranks == members()) return result(chunk, ranks, kFlagRetransmit);
      const std::uint64_t missing = members() & ~state.ranks;
      return say(PacketType::kResend, chunk, std::exchange(state.asked, true) ? missing & ranks : missing);
    }
    const auto value =
        static_cast<std::int32_t>(wire_at<Be<std::uint32_t>>(datagram.data() + kHeaderBytes).host());
    ASSERT_EQ(value, sum_of(ranks, chunk)) << "what leaves a box is what its ranks sent";
    ASSERT_EQ(h.sum1.host(),
              static_cast<std::uint32_t>(16 * value) + keyed(jobs::keys_of(boxes_[0].row, ranks), chunk));
    if (h.type == PacketType::kResult) {
      const std::uint64_t waited = std::exchange(state.ranks, members());
      if (waited != members()) result(chunk, waited, kFlagRetransmit);
      return;
    }
    came_[raw(chunk)].push_back(ranks);
    if (state.ranks == members()) return result(chunk, ranks, kFlagRetransmit);
    const std::uint64_t before = state.ranks;
    if ((before & ranks) == 0) {
      state.ranks |= ranks;
      state.sum += value;
    } else if ((before & ~ranks) == 0) {
      state.ranks = ranks;
      state.sum = value;
    } else if ((ranks & ~before) != 0) {
      return say(PacketType::kResend, chunk, ranks & ~before);
    }
    if (state.ranks != members()) return;
    ASSERT_EQ(state.sum, sum_of(members(), chunk)) << "each rank once";
    result(chunk, members(), 0);
  }
  // Once a round: what a server's timer asks for.
  void remind() {
    std::vector<std::uint32_t> waiting;
    for (const auto& [chunk, state] : states_)
      if (state.ranks != 0 && state.ranks != members()) waiting.push_back(chunk);
    for (const std::uint32_t chunk : waiting) {
      for (BoxIndex b = 0; b < boxes_.size(); ++b)
        if ((plan_.here(b, plan_group(Chunk{chunk})) & ~states_[chunk].ranks) != 0)
          to_box(b, server_rank(plan_.server(Chunk{chunk})),
                 make_server_packet(boxes_[b].row, PacketType::kFlush, Chunk{chunk}, 0));
      const std::uint64_t missing = members() & ~states_[chunk].ranks;
      if (missing != 0) say(PacketType::kResend, Chunk{chunk}, missing);
    }
  }
  void result(Chunk chunk, std::uint64_t ranks, std::uint8_t flags) {
    say(PacketType::kResult, chunk, ranks, std::vector<std::int32_t>(16, sum_of(members(), chunk)), flags);
  }
  // To each box, for those who come through it.
  void say(PacketType type, Chunk chunk, std::uint64_t ranks, const std::vector<std::int32_t>& values = {},
           std::uint8_t flags = 0) {
    for (BoxIndex b = 0; b < boxes_.size(); ++b) {
      const std::uint64_t through = plan_.through(b, plan_group(chunk)) & ranks;
      if (through == 0) continue;
      to_box(b, server_rank(plan_.server(chunk)),
             make_server_packet(boxes_[b].row, type, chunk, through, values, 0, flags));
    }
  }

  Plan plan_;
  RackSpec spec_;
  std::vector<Box> boxes_;
  std::map<std::uint32_t, State> states_;                     // of all servers, by chunk
  std::map<std::uint32_t, std::vector<std::uint64_t>> came_;  // ... and of whom each sum was that came
  std::vector<std::vector<std::uint32_t>> results_;           // by rank and chunk, how many came
  std::vector<std::vector<std::uint32_t>> tries_;             // ... and how often it was sent
  TimeNs now_ = kSecond;
};

}  // namespace tally
