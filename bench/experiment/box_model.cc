#include "box_model.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string_view>

#include "box_says.h"
#include "congestion_window.h"
#include "engine/datagram.h"
#include "job_plan.h"
#include "jobs.h"
#include "kernels/kernels.h"
#include "pipeline/reply.h"
#include "setting.h"
#include "tally/wire.h"

namespace tally::experiment {
namespace {

constexpr TimeNs kSweepEvery = kMillisecond;
constexpr std::uint32_t kEmbeddedStates = 16'384;
constexpr TimeNs kLease = 3'600 * kSecond;

std::uint32_t own_lines(const std::vector<jobs::NativeJob>& rows) {
  std::uint32_t lines = 0;
  for (const jobs::NativeJob& row : rows) lines = std::max(lines, row.slots.first + row.slots.count);
  return lines;
}

std::uint32_t shared_slots(const std::vector<jobs::NativeJob>& rows) {
  std::uint32_t slots = 0;
  for (const jobs::NativeJob& row : rows) slots = std::max(slots, row.shared_slots);
  return slots;
}

}  // namespace

BoxModel::BoxModel(sim::Schedule& time, Packets& packets, const Setting& setting, TimeNs round_trip,
                   const std::vector<jobs::NativeJob>& rows)
    : time_(time), packets_(packets), setting_(setting), round_trip_(round_trip) {
  const std::uint32_t slots = shared_slots(rows);
  const auto lines = own_lines(rows) + static_cast<std::uint32_t>(jobs::shared_lines(slots, kElements));
  memory_.resize(lines);
  if (setting.embedded) server_memory_.resize(std::size_t{kEmbeddedStates} * jobs::entry_lines(kElements));
  const pipeline::PipelineOptions options{.core = 0,
                                          .box = test_box(),
                                          .shared = jobs::shared_region(lines, slots, kElements),
                                          .server = server_memory_};
  pipeline_ =
      std::make_unique<pipeline::Pipeline<pipeline::Fused>>(options, memory_, kernels::best_kernels());
  const auto caps = std::make_shared<jobs::SharedCaps>();
  caps->fill(setting.row.server_only ? 0 : slots);
  table_ = std::make_shared<jobs::JobTable>(caps);
  for (const jobs::NativeJob& row : rows) {
    rows_.push_back(std::make_shared<const jobs::NativeJob>(row));
    table_ = table_->with(row.id, rows_.back());
  }
  pipeline_->adopt(table_.get());
  front_ = front_of(setting, slots);
  if (setting.gap_repair && by_hash(setting.row.discipline))
    gaps_ = std::make_unique<GapRepair>(rows.size(), 2 * round_trip);
}

void BoxModel::connect(std::vector<std::vector<std::unique_ptr<Link>>> to_workers,
                       std::vector<std::unique_ptr<ServerLink>> to_servers) {
  to_workers_ = std::move(to_workers);
  to_servers_ = std::move(to_servers);
}

std::vector<std::byte> BoxModel::answer_join(std::span<const std::byte> join) const {
  const Header asked = pipeline::header_at(join.data());
  JoinPayload wish;
  std::memcpy(&wish, join.data() + kHeaderBytes, sizeof wish);
  const std::string_view name(reinterpret_cast<const char*>(join.data() + kHeaderBytes + sizeof wish),
                              wish.name_bytes);
  const auto named =
      std::find_if(rows_.begin(), rows_.end(), [&](const auto& r) { return name_of(*r) == name; });
  if (named == rows_.end()) broken("a JOIN for a job that there is not");
  const jobs::NativeJob& job = **named;
  const std::uint32_t server = server_index(asked.rank_id());
  engine::Membership epoch;
  epoch.job = job.id;
  epoch.epoch = job.epoch;
  epoch.cookie =
      server < kMaxServers ? job.server_ranks.at(server).cookie : job.ranks.at(asked.rank.host()).cookie;
  epoch.result_cookie = job.result_cookie;
  epoch.generation = job.generation;
  epoch.largest_window = job.span / 2;
  epoch.window = epoch.lookahead = job.window;
  epoch.elements = job.elements;
  epoch.world = job.world;
  epoch.discipline = job.discipline;
  epoch.shared_slots = job.shared_slots;
  epoch.salt = job.salt;
  epoch.max_priority = job.max_priority;
  epoch.lease = kLease;
  epoch.box_mac = test_box().mac;
  return box_joined(epoch, JoinStatus::kRunning, wish.nonce.host(), auth::job_key(name, {}));
}

void BoxModel::on_event(std::uint32_t what, std::uint32_t detail) {
  if (what == kSweep) {
    sweep();
  } else {
    process(detail);
  }
  look_at_slots();
}

void BoxModel::process(PacketId id) {
  Packet& packet = packets_[id];
  const std::span<std::byte> datagram = std::span{packet.bytes}.subspan(kOuterBytes);
  Header header = pipeline::header_at(datagram.data());
  const jobs::NativeJob& job = row(raw(header.job_id()) - 1U);
  if (front_ && is_from_server(header.type) && front_->heard(job, header)) return packets_.release(id);
  const bool contributes = header.type == PacketType::kContribute;
  if (front_ && contributes && front_->arrives(job, header, *pipeline_))
    engine::seal(header, packet.datagram_bytes - kHeaderBytes, datagram, kernels::best_kernels());
  const pipeline::Frame frame{.data = packet.bytes.data(),
                              .length = static_cast<std::uint32_t>(kOuterBytes + packet.datagram_bytes),
                              .capacity = static_cast<std::uint32_t>(packet.bytes.size()),
                              .port = PortIndex{0},
                              .checksum_good = true};
  pipeline::Outcome outcome = pipeline_->process(frame, time_.now());
  const bool finished = outcome.verdict == Verdict::kComplete || outcome.verdict == Verdict::kRepeat;
  if (front_ && contributes && finished) by_way_of_server(outcome);
  dispatch(id, outcome);
}

// The RESULT of a slot becomes the PARTIAL of all members, if the front says so.
void BoxModel::by_way_of_server(pipeline::Outcome& outcome) {
  Header header = pipeline::header_at(outcome.payload);
  if (!front_->finished(outcome.native(), header.chunk_id())) return;
  header.type = PacketType::kPartial;
  header.flags &= kFlagOverflow;
  header.slot = Be<std::uint32_t>{slot_of(jobs::slot_map(outcome.native()), header.chunk_id())};
  engine::seal(header, outcome.payload_bytes - kHeaderBytes, {outcome.payload, outcome.payload_bytes},
               kernels::best_kernels());
  outcome.server = 0;
  outcome.priority = outcome.native().max_priority;
}

// Workers would notice when the result reaches them, and say so.
void BoxModel::repair_gaps(const jobs::NativeJob& job, Chunk finished) {
  for (const Chunk chunk : gaps_->finished(job, finished, time_.now())) {
    const PacketId id = packets_.take();
    write_flush(packets_[id], job, chunk);
    time_.at(time_.now() + round_trip_, *this, kFromServer, id);
  }
}

// Carries out what the pipeline says of a packet, and takes the packet.
void BoxModel::dispatch(PacketId id, const pipeline::Outcome& outcome) {
  Packet& packet = packets_[id];
  packet.datagram_bytes = static_cast<std::uint16_t>(outcome.payload_bytes);
  if (outcome.reject && outcome.job != nullptr) {
    const Header refused = pipeline::header_at(outcome.payload);
    const PacketId answer = packets_.take();
    Packet& reject = packets_[answer];
    reject.datagram_bytes = kHeaderBytes;
    const Cookie cookie =
        outcome.reject_reason == RejectReason::kWaiting ? outcome.native().result_cookie : Cookie{0};
    pipeline::write_reject(std::span<std::byte, kHeaderBytes>(reject.datagram(), kHeaderBytes), refused,
                           outcome.reject_reason, cookie, outcome.reject_contributors,
                           kernels::best_kernels());
    to_ranks(answer, outcome.native(), bit_of(refused.rank_id()));
  }
  if (outcome.nack) {
    const pipeline::Nack& nack = pipeline_->nack();
    const PacketId answer = packets_.take();
    packets_[answer].datagram_bytes = kHeaderBytes;
    pipeline::write_nack(std::span<std::byte, kHeaderBytes>(packets_[answer].datagram(), kHeaderBytes), nack,
                         0, kernels::best_kernels());
    to_ranks(answer, *nack.job, bit_of(nack.rank));
  }
  if (setting_.row.ecn) mark(id, outcome);
  if (outcome.server != pipeline::kNoServer) {
    const std::size_t host = (raw(outcome.job->id) - 1U) / setting_.jobs_of_server;
    return to_servers_[host]->push(id, outcome.job->id, outcome.priority);
  }
  switch (outcome.verdict) {
    case Verdict::kRelay:
    case Verdict::kTell:
      return to_ranks(id, outcome.native(), bit_of(outcome.to));
    case Verdict::kComplete:
      if (gaps_) repair_gaps(outcome.native(), pipeline::header_at(outcome.payload).chunk_id());
      [[fallthrough]];
    case Verdict::kRepeat:
      return to_ranks(id, outcome.native(), outcome.ranks);
    case Verdict::kHandOver:
    case Verdict::kPunt:
    case Verdict::kForward:
      broken("a data packet of a job is not taken for one");
    default:
      packets_.release(id);
  }
}

// A server copies the mark of what it got into the RESULT; here the box remembers it meanwhile.
void BoxModel::mark(PacketId id, const pipeline::Outcome& outcome) {
  if (outcome.job == nullptr) return;
  const std::uint64_t key =
      std::uint64_t{raw(outcome.job->id)} << 32 | raw(pipeline::header_at(outcome.payload).chunk_id());
  if (outcome.server != pipeline::kNoServer) {
    const std::size_t host = (raw(outcome.job->id) - 1U) / setting_.jobs_of_server;
    if (to_servers_[host]->waiting() > kMarkedAbove) congested_.insert(key);
  } else if (outcome.verdict == Verdict::kComplete) {
    packets_[id].marked = congested_.erase(key) != 0;
  }
}

void BoxModel::to_ranks(PacketId id, const jobs::NativeJob& job, std::uint64_t ranks) {
  const auto n = static_cast<std::uint16_t>(std::popcount(ranks));
  if (n == 0) return packets_.release(id);
  packets_.use(id, static_cast<std::uint16_t>(n - 1));
  for (; ranks != 0; ranks &= ranks - 1)
    to_workers_[raw(job.id) - 1U][static_cast<unsigned>(std::countr_zero(ranks))]->send(id);
}

// The product sweeps whenever a core is idle; here it looks at all slots now and then.
void BoxModel::sweep() {
  sweeps_ = false;
  const std::uint32_t looks = pipeline_->shared().region().entries / 4 + 1;
  for (std::uint32_t i = 0; i < looks; ++i) {
    if (!pipeline_->aged(time_.now())) continue;
    const PacketId id = packets_.take();
    Packet& packet = packets_[id];
    const pipeline::Outcome outcome =
        pipeline_->sweep(std::span{packet.bytes}.subspan(kOuterBytes), time_.now());
    if (outcome.verdict == Verdict::kDrop) {
      packets_.release(id);
    } else {
      dispatch(id, outcome);
    }
  }
}

void BoxModel::look_at_slots() {
  const auto since = static_cast<double>(time_.now() - looked_at_);
  filling_ns_ += static_cast<double>(filling_) * since;
  held_ns_ += static_cast<double>(held_) * since;
  looked_at_ = time_.now();
  filling_ = 0;
  for (const auto& row : rows_) filling_ += pipeline_->state(row->id).occupancy;
  held_ = front_ ? front_->held() : 0;
  if (sweeps_ || filling_ + held_ == 0) return;
  sweeps_ = true;
  time_.at(time_.now() + kSweepEvery, *this, kSweep);
}

void BoxModel::report(Outcomes& out, TimeNs end) const {
  for (const auto& row : rows_) {
    const pipeline::SlotCounters& slots = pipeline_->state(row->id).slots;
    out.claims += slots.claims;
    out.denied += slots.denied;
    out.evicted += slots.evicted;
    out.partials += slots.partials;
    out.swept += slots.swept;
    out.served += slots.served;
  }
  for (const auto& ranks : to_workers_)
    for (const auto& link : ranks) out.lost += link->lost();
  for (const auto& link : to_servers_) {
    out.to_servers += link->packets_offered();
    out.server_bytes += link->bytes();
    out.queue_drops += link->dropped();
    out.lost += link->lost();
    out.longest_queue = std::max(out.longest_queue, link->longest());
  }
  if (out.slots == 0) return;
  const double all = static_cast<double>(out.slots) * static_cast<double>(end);
  out.utilisation = (filling_ns_ + held_ns_) / all;
  out.useful = filling_ns_ / all;
}

}  // namespace tally::experiment
