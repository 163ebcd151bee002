#include "hazard_rack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "kernels/kernels.h"
#include "pipeline/reply.h"
#include "tally/mix64.h"

namespace tally::sim {
namespace {

WorkerOptions worker_options(const RackOptions& o, std::size_t index, std::uint16_t job, Rank rank) {
  WorkerOptions w;
  w.index = index;
  w.job = "job" + std::to_string(job);
  w.token = "secret";
  w.rank = rank;
  w.world = o.world;
  w.elements = kMaxElements;
  w.backlog = o.backlog;
  w.rto_floor = o.rto_floor;
  w.binding = test_binding(job, raw(rank));
  w.binding.port = PortIndex{static_cast<std::uint16_t>(index)};
  if (job < o.priorities.size()) w.priority = o.priorities[job];
  return w;
}

// Also of a restarted server: it takes its place from where it was.
ServerOptions server_options(const RackOptions& o, std::size_t link, std::uint8_t i) {
  ServerOptions s;
  s.index = link;
  for (std::uint16_t job = 0; job < o.jobs; ++job)
    s.jobs.push_back({"job" + std::to_string(job), "secret", i});
  s.elements = o.elements;
  s.states = o.server_states;
  s.binding.address = mapped({10, 0, 200, static_cast<std::uint8_t>(i + 1)});
  s.binding.mac = {2, 5, 0, 0, 0, i};
  s.binding.udp_port = 50'000;
  s.binding.port = PortIndex{static_cast<std::uint16_t>(link)};
  return s;
}

// What is there is over all boxes.
void spread_over_boxes(Scenario& s, const RackOptions& o) {
  std::vector<jobs::Box> boxes;
  members::BoxesConfig config;
  for (std::uint8_t i = 0; i < o.boxes; ++i) {
    boxes.push_back(test_box(i));
    config.addresses.push_back(mapped(boxes.back().ipv4));
  }
  for (members::NativeConfig& job : s.box.jobs) job.boxes = config;
  s.box.plans = o.plans;
  for (std::uint8_t i = 1; i < o.boxes; ++i) {
    SwitchOptions& other = s.others.emplace_back(s.box);
    other.self = boxes[i];
    for (members::NativeConfig& job : other.jobs) job.boxes->here = i;
  }
  for (WorkerOptions& worker : s.workers) worker.boxes = boxes;
  for (ServerOptions& server : s.servers) server.boxes = boxes;
}

// Each rack a box of its own, behind which its workers are, and box 0 above them.
void put_into_racks(Scenario& s, const RackOptions& o) {
  members::NativeConfig& parents = s.box.jobs.at(0);
  parents.racks.emplace();
  parents.racks->workers = o.racks;
  parents.workers = parents.racks->ranks_here();
  s.racks = o.racks.size();
  for (std::size_t i = 0, number = 0; i < s.racks; ++i) {
    SwitchOptions box = s.box;
    box.self = test_box(static_cast<std::uint8_t>(i + 1));
    members::NativeConfig& job = box.jobs.at(0);
    job.racks->rack = static_cast<std::uint8_t>(i);
    job.racks->parent = mapped(s.box.self.ipv4);
    job.workers = job.racks->ranks_here();
    for (std::uint8_t r = 0; r < o.racks[i]; ++r, ++number) {
      WorkerOptions& worker = s.workers.at(number);
      worker.boxes = {box.self};
      worker.binding.address =
          mapped({10, static_cast<std::uint8_t>(i + 1), 0, static_cast<std::uint8_t>(r + 1)});
      worker.binding.mac = {2, 6, 0, 0, static_cast<std::uint8_t>(i), r};
      box.ports.push_back(worker.binding.port);
    }
    box.ports.push_back(PortIndex{static_cast<std::uint16_t>(s.workers.size() + i)});
    s.others.push_back(std::move(box));
  }
}

Scenario scenario_for(const RackOptions& o) {
  Scenario s;
  s.seed = 1;
  s.operations = 0;
  s.box.cores = o.cores;
  s.box.slot_lines = o.slot_lines;
  s.link.vouched = o.vouched;
  s.link.bits_per_second = o.bits_per_second;
  if (shares_slots(o.discipline)) {
    s.box.shared_entries = o.shared_entries;
    s.box.shared_elements = o.elements;
    s.box.server_lines = o.server_states * jobs::entry_lines(o.elements);
  }
  for (std::uint16_t job = 0; job < o.jobs; ++job) {
    members::NativeConfig config;
    config.priority = members::kMaxPriority;
    config.name = "job" + std::to_string(job);
    config.token = "secret";
    config.workers = o.world;
    config.elements = o.elements;
    config.window = o.window;
    config.lease = o.lease;
    config.first_chunk = o.first_chunk;
    config.discipline = o.discipline;
    if (shares_slots(o.discipline)) config.server = ServerKind::kEmbedded;
    if (o.servers != 0) config.server = ServerKind::kExternal;
    config.servers = o.servers;
    if (job < o.job_priorities.size()) config.priority = o.job_priorities[job];
    if (job < o.windows.size()) config.window = o.windows[job];
    if (job < o.quotas.size()) config.quota = o.quotas[job];
    config.stragglers = o.stragglers;
    s.box.jobs.push_back(config);
    for (std::uint16_t r = 0; r < o.world; ++r)
      s.workers.push_back(worker_options(o, s.workers.size(), job, Rank{r}));
  }
  for (const Rank rank : o.rivals) {
    auto rival = worker_options(o, s.workers.size(), 0, rank);
    rival.binding.address = mapped({10, 0, 99, static_cast<std::uint8_t>(s.workers.size())});
    rival.binding.mac.back() = 0xEE;
    s.workers.push_back(rival);
  }
  for (std::uint8_t i = 0; i < o.servers; ++i)
    s.servers.push_back(server_options(o, s.workers.size() + i, i));
  if (o.boxes > 1) spread_over_boxes(s, o);
  if (!o.racks.empty()) put_into_racks(s, o);
  return s;
}

bool matches(const Match& m, std::size_t worker, bool up, const Header& h) {
  return (!m.worker || *m.worker == worker) && (!m.up || *m.up == up) && (!m.type || *m.type == h.type) &&
         (!m.chunk || *m.chunk == h.chunk_id()) && (!m.also || m.also(h));
}

bool says_counter(PacketType type) {
  return type == PacketType::kHeartbeat || type == PacketType::kLeave || type == PacketType::kAbort;
}

}  // namespace

Header header_in(const Bytes& frame) { return header_of(std::span{frame}.subspan(kOuterBytes)); }

Bytes datagram_in(const Bytes& frame) { return {frame.begin() + kOuterBytes, frame.end()}; }

void set_header_in(Bytes& frame, const Header& h) {
  Bytes datagram = datagram_in(frame);
  set_header(datagram, h);
  std::copy(datagram.begin(), datagram.end(), frame.begin() + kOuterBytes);
}

Plan rack_for_each_half(const members::PlanRequest& request) {
  Plan plan;
  for (std::size_t box = 0; box < request.addresses.size(); ++box)
    if ((request.usable >> box & 1U) != 0) plan.boxes.push_back(request.addresses[box]);
  plan.server_count = request.servers;
  for (std::uint32_t group = 0; group < kPlanGroups; ++group)
    plan.servers[group] = static_cast<std::uint8_t>(group % request.servers);
  plan.tables.resize(2);
  plan.tables[0].fill(Route{.box = 0});
  plan.tables[1].fill(Route{.box = static_cast<BoxIndex>(plan.boxes.size() - 1)});
  for (std::uint32_t rank = 0; rank < request.world; ++rank)
    plan.table_of.push_back(2 * rank < request.world ? std::uint8_t{0} : std::uint8_t{1});
  return plan;
}

HazardRack::HazardRack(RackOptions options)
    : options_(std::move(options)),
      reductions_(options_.jobs),
      sim_(std::make_unique<Simulation>(scenario_for(options_))) {
  sim_->network().filter(
      [this](std::size_t worker, bool up, Bytes& frame) { return decide(worker, up, frame); });
}

HazardRack::~HazardRack() {
  for (const auto& what : sim_->broken()) ADD_FAILURE() << what;
}

void HazardRack::join(std::uint16_t job) {
  for (std::uint8_t i = 0; i < options_.servers; ++i) server(i).start();
  for (std::uint16_t r = 0; r < options_.world; ++r) worker(r, job).start();
  EXPECT_TRUE(until([&] { return running(job); })) << worker(0, job).describe();
}

bool HazardRack::running(std::uint16_t job) {
  for (std::uint16_t r = 0; r < options_.world; ++r) {
    if (!worker(r, job).engine_running()) return false;
  }
  return true;
}

bool HazardRack::enlisted(std::uint16_t job) {
  for (std::uint16_t r = 0; r < options_.world; ++r) {
    const engine::WorkerEngine& engine = worker(r, job).engine();
    if (!worker(r, job).engine_running()) return false;
    for (std::size_t box = 1; box < engine.boxes().size(); ++box)
      if (!engine.guest(box).running()) return false;
  }
  return true;
}

std::size_t HazardRack::rack_of(std::uint16_t rank) const noexcept {
  std::size_t rack = 0;
  for (std::uint32_t end = options_.racks[0]; rank >= end; end += options_.racks[rack]) ++rack;
  return rack;
}

void HazardRack::cut(std::size_t link) {
  for (const bool up : {true, false}) sim_->network().cut(link, up, kNever);
}

void HazardRack::cut_off(std::size_t box) {
  const std::size_t ends = server_link(options_.servers);
  for (std::size_t i = 0; i < ends; ++i) cut(sim_->link(i, box));
}

std::vector<std::uint16_t> HazardRack::ranks() const {
  std::vector<std::uint16_t> all(options_.world);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  return all;
}

HazardRack::Reduction& HazardRack::reduction(std::size_t number, std::uint16_t job) {
  auto& all = reductions_.at(job);
  while (all.size() <= number) all.emplace_back(options_.world);
  return all[number];
}

std::int32_t HazardRack::value(std::uint16_t rank, std::size_t number, std::size_t i,
                               std::uint16_t job) const {
  const std::uint64_t which = (std::uint64_t{job} << 56) | (std::uint64_t{rank} << 48) | (number << 24) | i;
  return static_cast<std::int32_t>(mix64(which + 1) >> 32) >> 8;  // 64 of them stay inside int32
}

std::size_t HazardRack::reduce(std::uint32_t elements, std::uint16_t job) {
  const std::size_t number = reductions_.at(job).size();
  for (std::uint16_t r = 0; r < options_.world; ++r) reduce_at(r, number, elements, job);
  return number;
}

void HazardRack::reduce_at(std::uint16_t rank, std::size_t number, std::uint32_t elements,
                           std::uint16_t job) {
  std::vector<std::int32_t> values(elements);
  for (std::size_t i = 0; i < elements; ++i) values[i] = value(rank, number, i, job);
  submit_ints(rank, number, std::move(values), job);
}

void HazardRack::submit_ints(std::uint16_t rank, std::size_t number, std::vector<std::int32_t> values,
                             std::uint16_t job) {
  Part& part = reduction(number, job).at(rank);
  part.ints = std::move(values);
  part.int_sums.assign(part.ints.size(), 77);
  const std::span<const std::int32_t> in(part.ints);
  const std::span<std::int32_t> out(part.int_sums);
  const auto id = worker(rank, job).engine().allreduce(std::span{&in, 1}, std::span{&out, 1}, now());
  ASSERT_TRUE(id) << id.error().text();
  part.id = *id;
  worker(rank, job).resume_service();
}

std::size_t HazardRack::reduce_ints(const std::vector<std::vector<std::int32_t>>& of_ranks) {
  const std::size_t number = reductions_.at(0).size();
  for (std::uint16_t r = 0; r < options_.world; ++r) submit_ints(r, number, of_ranks.at(r), 0);
  return number;
}

std::size_t HazardRack::reduce_floats(const std::vector<std::vector<float>>& of_ranks,
                                      const engine::OperationOptions& options) {
  const std::size_t number = reductions_.at(0).size();
  for (std::uint16_t r = 0; r < options_.world; ++r) {
    Part& part = reduction(number, 0).at(r);
    part.floats = of_ranks.at(r);
    part.float_sums.assign(part.floats.size(), 77.0F);
    const std::span<const float> in(part.floats);
    const std::span<float> out(part.float_sums);
    part.id = *worker(r).engine().allreduce(std::span{&in, 1}, std::span{&out, 1}, now(), options);
    worker(r).resume_service();
  }
  return number;
}

const Result<OperationStats>* HazardRack::outcome(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  const auto id = reduction(number, job).at(rank).id;
  return id ? worker(rank, job).outcome(*id) : nullptr;
}

bool HazardRack::done(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  const auto* const how = outcome(rank, number, job);
  return how != nullptr && how->has_value();
}

bool HazardRack::done(std::size_t number, std::uint16_t job) {
  for (std::uint16_t r = options_.world; r-- > 0;) {  // the last is the last to be so
    if (!done(r, number, job)) return false;
  }
  return true;
}

bool HazardRack::failed(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  const auto* const how = outcome(rank, number, job);
  return how != nullptr && !how->has_value();
}

std::string HazardRack::error(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  return failed(rank, number, job) ? outcome(rank, number, job)->error().text() : "";
}

const OperationStats& HazardRack::stats(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  const auto* const how = outcome(rank, number, job);
  if (how == nullptr) throw std::logic_error("statistics of a reduction that has not ended");
  return how->value();
}

const std::vector<float>& HazardRack::floats(std::uint16_t rank, std::size_t number) {
  return reduction(number, 0).at(rank).float_sums;
}

void HazardRack::expect_exact(std::size_t number, std::uint16_t job, TimeNs patience) {
  until([&] { return done(number, job); }, patience);
  const std::vector<std::int32_t> wanted = sums_of(number, job);
  for (std::uint16_t r = 0; r < options_.world; ++r) expect_sums_at(r, number, job, wanted);
}

void HazardRack::expect_exact_at(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  expect_sums_at(rank, number, job, sums_of(number, job));
}

std::vector<std::int32_t> HazardRack::sums_of(std::size_t number, std::uint16_t job) {
  const Reduction& parts = reduction(number, job);
  std::vector<std::uint32_t> sums(parts.front().ints.size());
  for (const Part& part : parts) {
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<std::uint32_t>(part.ints.at(i));
  }
  return {sums.begin(), sums.end()};
}

void HazardRack::expect_sums_at(std::uint16_t rank, std::size_t number, std::uint16_t job,
                                const std::vector<std::int32_t>& wanted) {
  ASSERT_TRUE(done(rank, number, job)) << "reduction " << number << " of " << worker(rank, job).describe();
  EXPECT_EQ(reduction(number, job).at(rank).int_sums, wanted)
      << "reduction " << number << " at rank " << rank;
}

void HazardRack::expect_named_at(std::uint16_t rank, std::size_t number, std::uint16_t job) {
  ASSERT_TRUE(done(rank, number, job)) << "reduction " << number << " of " << worker(rank, job).describe();
  const Reduction& parts = reduction(number, job);
  const std::vector<std::int32_t>& sums = parts.at(rank).int_sums;
  std::vector<std::uint64_t> named(sums.size(), members_of(options_.world));
  for (const PartialSum& partial : stats(rank, number, job).partial)
    std::fill_n(named.begin() + static_cast<std::ptrdiff_t>(partial.first), partial.count,
                partial.contributors);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    std::uint32_t wanted = 0;
    for (std::uint16_t r = 0; r < options_.world; ++r)
      if ((named[i] & bit_of(Rank{r})) != 0) wanted += static_cast<std::uint32_t>(parts.at(r).ints.at(i));
    ASSERT_EQ(static_cast<std::uint32_t>(sums[i]), wanted) << "element " << i << " at rank " << rank;
  }
}

Fate HazardRack::decide(std::size_t worker, bool up, Bytes& frame) {
  const Header h = header_in(frame);
  if (up && says_counter(h.type))
    counters_[worker] = wire_at<CountedPayload>(frame.data() + kOuterBytes + kHeaderBytes).counter.host();
  for (Rule& rule : rules_) {
    if (rule.left == 0 || !matches(rule.match, worker, up, h)) continue;
    --rule.left;
    if (rule.change) rule.change(frame);
    rule.frames.push_back(frame);
    if (rule.fate != Fate::kPass) return rule.fate;
  }
  return Fate::kPass;
}

Rule& HazardRack::lose(Match match, int times) {
  return rules_.emplace_back(Rule{std::move(match), Fate::kLose, times});
}
Rule& HazardRack::copy(Match match, int times) {
  return rules_.emplace_back(Rule{std::move(match), Fate::kTwice, times});
}
Rule& HazardRack::record(Match match) { return rules_.emplace_back(Rule{std::move(match)}); }
Rule& HazardRack::change(Match match, std::function<void(Bytes& frame)> how, int times) {
  return rules_.emplace_back(Rule{std::move(match), Fate::kPass, times, std::move(how)});
}

Bytes HazardRack::frame_up(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job) {
  const Header h = header_of(datagram);
  const std::uint32_t shard = is_control(h.type) ? 0 : membership(rank, job).shard_of(h.chunk_id());
  return wrap(datagram, worker(rank, job).options().binding, test_box(),
              static_cast<std::uint16_t>(kBasePort + shard));
}

void HazardRack::inject_up(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job) {
  sim_->network().inject(link(rank, job), true, frame_up(rank, datagram, job));
}

void HazardRack::say_up(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job) {
  sim_->network().to_box(link(rank, job), frame_up(rank, datagram, job));
}

void HazardRack::inject_down(std::uint16_t rank, std::span<const std::byte> datagram, std::uint16_t job) {
  const jobs::Binding& to = worker(rank, job).options().binding;
  Bytes frame(pipeline::encapsulation_bytes(to) + datagram.size());
  pipeline::write_encapsulation(std::span{frame}.first(pipeline::encapsulation_bytes(to)), to, test_box(),
                                kBasePort, datagram);
  std::copy(datagram.begin(), datagram.end(),
            frame.begin() + static_cast<std::ptrdiff_t>(pipeline::encapsulation_bytes(to)));
  sim_->network().inject(link(rank, job), false, std::move(frame));
}

void HazardRack::replay(const Rule& recorded, std::size_t worker, bool up) {
  const std::vector<Bytes> frames = recorded.frames;  // the rule may record what follows from this
  for (const Bytes& frame : frames) sim_->network().inject(worker, up, frame);
  run_for(kMillisecond / 2);
}

void HazardRack::replay_forgotten(const Rule& recorded, std::size_t worker) {
  const std::vector<Bytes> frames = recorded.frames;
  for (Bytes frame : frames) {
    Header h = header_in(frame);
    h.slot = Be{kForgottenSequence};
    set_header_in(frame, h);
    sim_->network().inject(worker, true, frame);
  }
  run_for(kMillisecond / 2);
}

jobs::NativeJob HazardRack::row(std::uint16_t job) {
  const engine::Membership& m = membership(0, job);
  jobs::NativeJob row;
  row.id = m.job;
  row.epoch = m.epoch;
  row.generation = m.generation;
  row.result_cookie = m.result_cookie;
  row.world = static_cast<std::uint8_t>(m.world);
  row.elements = static_cast<std::uint16_t>(m.elements);
  row.window = m.window;
  row.span = 2 * m.largest_window;
  row.members = m.members();
  row.discipline = m.discipline;
  row.shared_slots = m.shared_slots;
  row.salt = m.salt;
  row.key_sum = m.key_sum;
  for (std::uint16_t r = 0; r < options_.world; ++r)
    row.ranks.at(r) = {membership(r, job).cookie, membership(r, job).key, worker(r, job).options().binding};
  return row;
}

Bytes HazardRack::control(PacketType type, std::uint16_t rank, Chunk chunk, const std::string& text) {
  const engine::Membership& m = membership(rank);
  Header h;
  h.type = type;
  h.job = Be{raw(m.job)};
  h.rank = Be{rank};
  h.epoch = Be{raw(m.epoch)};
  h.chunk = Be{raw(chunk)};
  h.cookie = Be{raw(m.cookie)};
  const std::string said = type == PacketType::kHeartbeat ? "job0" : text;
  Bytes payload(says_counter(type) ? sizeof(CountedPayload) : 0);
  std::ranges::copy(std::as_bytes(std::span(said)), std::back_inserter(payload));
  if (says_counter(type)) {
    wire_put(payload.data(), CountedPayload{Be{++counters_[link(rank)]}});
    const bool beats = type == PacketType::kHeartbeat;
    if (beats) h.contributors = Be{worker(rank).instance()};
    const Tag tag = auth::tag_of(beats ? auth::job_key("job0", "secret") : m.session, h, payload);
    std::ranges::copy(std::as_bytes(std::span(tag)), std::back_inserter(payload));
  }
  h.sum1 = Be{payload.empty() ? 0U : kernels::best_kernels().crc32c(payload.data(), payload.size())};
  Bytes out(kHeaderBytes + payload.size());
  std::copy(payload.begin(), payload.end(), out.begin() + kHeaderBytes);
  set_header(out, h);
  return out;
}

Bytes HazardRack::result(Chunk chunk, std::vector<std::int32_t> sums, std::uint32_t total) {
  const jobs::NativeJob job = row();
  Bytes out = make_contribution(job, {.chunk = chunk, .values = std::move(sums), .total = total});
  Header h = header_of(out);
  h.type = PacketType::kResult;
  h.rank = Be{raw(kSwitchRank)};
  h.contributors = Be{job.members};
  h.cookie = Be{raw(job.result_cookie)};
  h.sum1 = Be{h.sum1.host() - keyed(job.ranks[0].key, chunk) + keyed(job.key_sum, chunk)};
  set_header(out, h);
  return out;
}

}  // namespace tally::sim
