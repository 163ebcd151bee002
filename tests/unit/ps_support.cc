#include "ps_support.h"

#include <cstring>

#include "box_says.h"
#include "jobs/job_table.h"
#include "tally/mix64.h"

namespace tally::psbed {
using testbed::plain_sum1;
using testbed::plain_sum2;

engine::Membership BoxJob::membership() const {
  engine::Membership m;
  m.job = JobId{id};
  m.epoch = Epoch{epoch};
  m.cookie = Cookie{cookie()};
  m.result_cookie = Cookie{result_cookie()};
  m.generation = Generation{generation};
  m.window = m.largest_window = m.lookahead = window;
  m.elements = elements;
  m.world = world;
  m.shards = shards;
  m.discipline = discipline;
  m.shared_slots = 64;
  m.max_priority = 0;
  m.lease = lease_ms * kMillisecond;
  m.session = auth::session_key(job_key(), m.generation, m.epoch, m.result_cookie, m.cookie, kInstance,
                                server_rank(server));
  return m;
}

Header BoxJob::from_box(PacketType type) const { return box_header(membership(), type); }

Bytes BoxJob::joined(JoinStatus status, std::uint64_t nonce, const std::string& text) const {
  return box_joined(membership(), status, nonce, job_key(), status == JoinStatus::kForming ? members() : 0,
                    testbed::text_bytes(text));
}

Bytes BoxJob::reject(RejectReason reason) const {
  Header h = from_box(PacketType::kReject);
  h.slot = Be{static_cast<std::uint32_t>(reason)};
  return box_tells(membership(), h);
}

Bytes BoxJob::abort(const std::string& text) const {
  return box_tells(membership(), from_box(PacketType::kAbort), testbed::text_bytes(text));
}

Bytes BoxJob::echo() const { return box_tells(membership(), from_box(PacketType::kHeartbeat)); }

Values BoxJob::offered(std::uint16_t rank, Chunk chunk, std::uint16_t n) const {
  Values values(n);
  for (std::uint32_t i = 0; i < n; ++i)
    values[i] =
        static_cast<std::int32_t>(mix64(mix64(generation ^ raw(chunk)) + std::uint64_t{rank} * 4096 + i));
  return values;
}

Values BoxJob::sum(std::uint64_t ranks, Chunk chunk, std::uint16_t n) const {
  Values total(n);
  for (std::uint16_t r = 0; r < world; ++r) {
    if ((ranks >> r & 1) == 0) continue;
    const Values one = offered(r, chunk, n);
    for (std::uint32_t i = 0; i < n; ++i)
      total[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(total[i]) +
                                           static_cast<std::uint32_t>(one[i]));
  }
  return total;
}

Header BoxJob::part(PacketType type, std::uint64_t ranks, Chunk chunk, std::uint16_t n) const {
  Header h = from_box(type);
  h.chunk = Be{raw(chunk)};
  h.slot = Be{raw(chunk) % (2 * window)};
  h.elements = Be{n};
  h.contributors = Be{ranks};
  const Values values = sum(ranks, chunk, n);
  std::uint32_t keys = 0;
  for (std::uint16_t r = 0; r < world; ++r)
    if ((ranks >> r & 1) != 0) keys += rank_key(Generation{generation}, Rank{r});
  h.sum1 = Be{plain_sum1(values) + keyed(keys, chunk)};
  h.sum2 = Be{plain_sum2(values)};
  h.total = Be{std::uint32_t{n}};
  return h;
}

Bytes BoxJob::contribution(std::uint16_t rank, Chunk chunk, std::uint16_t n) const {
  Header h = part(PacketType::kContribute, bit_of(Rank{rank}), chunk, n);
  h.rank = Be{rank};
  h.flags = kFlagCollision;
  return sealed(h, offered(rank, chunk, n));
}

Bytes BoxJob::query(std::uint16_t rank, Chunk chunk) const {
  Header h = from_box(PacketType::kQuery);
  h.rank = Be{rank};
  h.flags = kFlagRetransmit;
  h.chunk = Be{raw(chunk)};
  h.slot = Be{raw(chunk) % (2 * window)};
  h.contributors = Be{bit_of(Rank{rank})};
  return sealed(h);
}

Bytes BoxJob::partial(std::uint64_t ranks, Chunk chunk, std::uint16_t n) const {
  return sealed(part(PacketType::kPartial, ranks, chunk, n), sum(ranks, chunk, n));
}

Bytes BoxJob::result(Chunk chunk, std::uint16_t n) const {
  return sealed(part(PacketType::kResult, members(), chunk, n), sum(members(), chunk, n));
}

void BoxJob::expect_from_server(const Header& h, Chunk chunk) const {
  EXPECT_EQ(h.rank_id(), server_rank(server));
  EXPECT_EQ(h.job.host(), id);
  EXPECT_EQ(h.epoch.host(), epoch);
  EXPECT_EQ(h.cookie.host(), cookie());
  EXPECT_EQ(h.chunk_id(), chunk);
  EXPECT_EQ(h.slot.host(), raw(chunk) % (2 * window));
}

void BoxJob::expect_result(const Bytes& sent, std::uint64_t ranks, Chunk chunk, std::uint16_t n) const {
  const Header h = header_of(sent);
  ASSERT_EQ(h.type, PacketType::kResult);
  expect_from_server(h, chunk);
  EXPECT_EQ(h.contributors.host(), ranks);
  EXPECT_EQ(values_of(sent), sum(members(), chunk, n));
  const Header whole = part(PacketType::kResult, members(), chunk, n);
  EXPECT_EQ(h.elements, whole.elements);
  EXPECT_EQ(h.total, whole.total);
  EXPECT_EQ(h.sum1, whole.sum1);
  EXPECT_EQ(h.sum2, whole.sum2);
  EXPECT_EQ(testbed::resealed(sent), sent) << "its check";
}

void BoxJob::expect_bare(const Bytes& sent, PacketType type, std::uint64_t ranks, Chunk chunk) const {
  const Header h = header_of(sent);
  ASSERT_EQ(h.type, type);
  expect_from_server(h, chunk);
  EXPECT_EQ(h.contributors.host(), ranks);
  EXPECT_EQ(h.elements.host(), 0);
  EXPECT_EQ(sent.size(), kHeaderBytes);
  EXPECT_EQ(testbed::resealed(sent), sent) << "its check";
}

JoinPayload join_payload(const Bytes& join) {
  EXPECT_EQ(header_of(join).type, PacketType::kJoin);
  JoinPayload p;
  std::memcpy(&p, join.data() + kHeaderBytes, sizeof p);
  EXPECT_EQ(join.size(), kHeaderBytes + sizeof p + p.name_bytes + kTagBytes);
  return p;
}

ps::PsOptions options_of(const std::vector<BoxJob>& jobs, std::size_t states, std::uint16_t elements) {
  ps::PsOptions o;
  for (const BoxJob& job : jobs) o.jobs.push_back({job.name, job.token, job.server});
  o.elements = elements;
  o.instance = kInstance;
  o.seed = 5;
  o.memory = states * jobs::entry_lines(elements) * sizeof(jobs::Line);
  return o;
}

Server::Server(const std::vector<BoxJob>& jobs, std::size_t states, std::uint16_t elements)
    : engine(std::move(*ps::PsEngine::create(options_of(jobs, states, elements), kernels::best_kernels()))) {}

std::vector<Out> Server::drain() {
  std::vector<Out> all;
  for (;;) {
    Bytes out(engine->max_datagram_bytes());
    std::uint16_t port = 0;
    const std::size_t bytes = engine->transmit(out, now, port);
    if (bytes == 0) break;
    out.resize(bytes);
    const Header h = header_of(out);
    EXPECT_TRUE(!is_control(h.type) || port == kBasePort);
    if (h.type != PacketType::kHeartbeat) all.push_back({std::move(out), port});
  }
  EXPECT_GT(engine->deadline(), now);
  return all;
}

Bytes Server::one() {
  auto all = drain();
  EXPECT_EQ(all.size(), 1U);
  return all.empty() ? Bytes(kHeaderBytes) : all[0].bytes;
}

void Server::join(const BoxJob& job) {
  for (const Out& out : drain()) {
    if (out.header().type != PacketType::kJoin) continue;
    const JoinPayload p = join_payload(out.bytes);
    const auto* const name = reinterpret_cast<const char*>(out.bytes.data() + kHeaderBytes + sizeof p);
    if (std::string(name, p.name_bytes) == job.name) hear(job.joined(JoinStatus::kRunning, p.nonce.host()));
  }
}

void Server::expect_refused(const Bytes& datagram, Refused why) {
  ps::PsRefused before = engine->refused();
  hear(datagram);
  ++before[static_cast<std::size_t>(why)];
  EXPECT_EQ(engine->refused(), before) << name_of(why);
  none();
}

std::vector<std::string> Server::events() {
  std::vector<std::string> all;
  while (auto event = engine->next_event()) all.push_back(event->text);
  return all;
}

}  // namespace tally::psbed
