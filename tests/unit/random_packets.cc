#include "random_packets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "plans.h"
#include "tally/mix64.h"
#include "tally/rows.h"

namespace tally {
namespace {

constexpr std::array kDisciplines{Discipline::kPool, Discipline::kFcfs, Discipline::kPreemptive,
                                  Discipline::kShared};

JobSpec random_spec(Rng& rng, bool mixed) {
  JobSpec spec{.epoch = static_cast<std::uint32_t>(rng.next() | 1), .generation = rng.next()};
  spec.world = static_cast<std::uint8_t>(rng.chance(0.1) ? 64 : rng.between(1, 5));
  spec.window = 16U << rng.below(2);
  spec.shards = static_cast<std::uint8_t>(rng.between(1, 3));
  spec.elements = static_cast<std::uint16_t>(16 * rng.between(1, rng.chance(0.05) ? 139 : 6));
  if (mixed ? rng.chance(0.5) : rng.chance(0.3)) {
    spec.stragglers = {.timeout = static_cast<std::uint32_t>(20ULL << rng.below(10)),
                       .least = static_cast<std::uint8_t>(rng.between(1, spec.world)),
                       .fence = Chunk{static_cast<std::uint32_t>(rng.between(0, 20)) - 20}};
  }
  if (!mixed) {
    if (spec.stragglers.timeout == 0 && rng.chance(0.4)) {
      spec.racks = static_cast<std::uint8_t>(rng.between(2, 4));
      spec.parent_shards = static_cast<std::uint8_t>(rng.between(1, 4));
    }
    spec.sparse = spec.stragglers.timeout == 0 && spec.racks == 0 && spec.world > 1 && rng.chance(0.6);
    return spec;
  }
  spec.discipline = rng.chance(0.5) ? Discipline::kShared : kDisciplines[rng.below(kDisciplines.size())];
  if (shares_slots(spec.discipline)) spec.stragglers = {};
  spec.decay = static_cast<Decay>(rng.below(3));
  spec.max_priority = static_cast<std::uint8_t>(rng.chance(0.3) ? rng.below(255) : 254);
  spec.reserved = static_cast<std::uint32_t>(rng.chance(0.3) ? rng.below(4) : 0);
  if (rng.chance(0.3)) spec.cap = static_cast<std::uint32_t>(rng.below(4));
  spec.salt = rng.next();
  if (spec.discipline != Discipline::kPool && rng.chance(0.4)) {
    spec.servers = static_cast<std::uint8_t>(rng.between(1, 3));
    if (spec.discipline == Discipline::kShared && rng.chance(0.7)) {
      if (rng.chance(0.7))
        spec.world = static_cast<std::uint8_t>(rng.between(2, 4));  // so that some PARTIALs leave
      const Plan plan = random_plan(rng, {.boxes = static_cast<std::uint8_t>(rng.between(1, 3)),
                                          .world = spec.world,
                                          .servers = spec.servers});
      spec.part = share_part(plan, static_cast<BoxIndex>(rng.below(plan.boxes.size())));
    }
  }
  return spec;
}

// Some have not enlisted, or are lost from sight.
void lose_sight(Rng& rng, jobs::NativeJob& job) {
  for (std::uint32_t r = 0; r < job.world; ++r)
    if (rng.chance(0.05)) job.ranks[r].binding = {};
  if (rng.chance(0.1)) job.server_ranks[rng.below(job.servers)].binding = {};
  job.take_part(job.part);
}

// An answer; its sums are right in one of two cases.
void make_answer(Rng& rng, const jobs::NativeJob& job, Rank rank, Bytes& out) {
  Header h = header_of(out);
  h.type = PacketType::kAnswer;
  const bool some = rng.chance(0.3);
  h.flags = static_cast<std::uint8_t>((h.flags & kFlagZero) | (some ? kFlagIncomplete : 0));
  h.contributors = Be{some ? job.members & rng.next() : job.members};
  h.slot = Be{static_cast<std::uint32_t>(rng.below(job.world + 1u))};
  if (rng.chance(0.3)) h.slot = Be{std::uint32_t{raw(server_rank(0))}};
  if (rng.chance(0.5)) {
    h.sum1 = Be{h.sum1.host() - keyed(job.ranks[raw(rank)].key, h.chunk_id()) +
                keyed(jobs::keys_of(job, h.contributors.host()), h.chunk_id())};
  }
  set_header(out, h);
}

// Of one of its servers, now and then of one that it has not; the sums of a RESULT are right.
Bytes make_servers(Rng& rng, const jobs::NativeJob& job, Chunk chunk, const ContributionSpec& spec) {
  constexpr std::array kTypes{PacketType::kResult, PacketType::kResend, PacketType::kFlush};
  const PacketType type = kTypes[rng.below(kTypes.size())];
  const std::uint64_t ranks = type == PacketType::kFlush ? 0
                              : rng.chance(0.5)          ? job.members
                                                         : job.members & rng.next();
  const bool valued = type == PacketType::kResult;
  Bytes out = make_server_packet(job, type, chunk, ranks, valued ? spec.values : std::vector<std::int32_t>{},
                                 spec.dtype, valued ? spec.flags & kFlagZero : 0);
  Header h = header_of(out);
  if (valued && rng.chance(0.3)) h.flags |= kFlagRetransmit;
  if (rng.chance(0.03)) h.rank = Be{raw(server_rank(static_cast<std::uint32_t>(rng.below(4))))};
  set_header(out, h);
  return out;
}

// Of the parent of a job of racks, for the most part right.
Bytes make_parents(Rng& rng, const jobs::NativeJob& job, const ContributionSpec& spec) {
  if (rng.chance(0.2)) {
    const auto rack = static_cast<std::uint16_t>(rng.below(job.parent.racks + 1U));
    return make_query_above(job, spec.chunk, rack, static_cast<std::uint32_t>(rng.below(job.world + 1U)));
  }
  const auto flags = static_cast<std::uint8_t>((spec.flags & (kFlagZero | kFlagOverflow)) |
                                               (rng.chance(0.3) ? kFlagRetransmit : 0));
  Bytes out = make_result_above(job, spec.chunk, spec.values, spec.dtype, flags, spec.total);
  if (rng.chance(0.95)) return out;
  Header h = header_of(out);
  h.contributors = Be{h.contributors.host() & rng.next()};
  set_header(out, h);
  return out;
}

// Of a worker to another rack, or back.
void make_across(Rng& rng, const jobs::NativeJob& job, Rank rank, Bytes& out) {
  Header h = header_of(out);
  const auto rack = static_cast<std::uint32_t>(rng.below(job.parent.racks + 1U));
  if (h.type == PacketType::kQuery) {
    h.flags |= kFlagDirect;
    h.contributors = Be{std::uint64_t{1} << rack};
  } else {
    h.slot = Be{kRackRankBase + rack};
    if (rng.chance(0.5))
      h.sum1 = Be{h.sum1.host() + keyed(job.parent.key_sum - job.ranks[raw(rank)].key, h.chunk_id())};
    h.flags &= kFlagZero;
    h.contributors = Be{job.members};
  }
  set_header(out, h);
}

// A contribution of zeros that speaks for chunks behind its own, too: of its shard, but for a few.
void make_run(Rng& rng, const jobs::NativeJob& job, const ContributionSpec& spec, Bytes& out) {
  std::uint64_t chunks = 1;
  const std::uint32_t most = std::min(kMostOfRun, rng.chance(0.97) ? job.window / job.shards : kMostOfRun);
  for (std::uint32_t i = 1; i < most && rng.chance(0.9); ++i) {
    const Chunk chunk = spec.chunk + i * job.shards;
    const bool same_shard = raw(chunk) % job.window % job.shards == raw(spec.chunk) % job.window % job.shards;
    if (rng.chance(0.7) && (same_shard || rng.chance(0.05))) chunks |= std::uint64_t{1} << i;
  }
  ContributionSpec zeros = spec;
  zeros.sequence = header_of(out).sequence();
  std::vector<std::int8_t> exponents;
  if (rng.chance(0.5)) exponents.resize(static_cast<std::size_t>(std::popcount(chunks)));
  for (std::int8_t& exponent : exponents) exponent = static_cast<std::int8_t>(rng.below(4));
  out = make_zero_run(job, zeros, chunks, exponents);
  if (out.size() != kHeaderBytes && rng.chance(0.03)) {
    out[kHeaderBytes + rng.below(out.size() - kHeaderBytes)] ^= std::byte{1};
    if (rng.chance(0.3)) out.resize(out.size() - 4);
  }
  if (!rng.chance(0.03)) return;
  Header h = header_of(out);
  h.contributors = Be{h.contributors.host() ^ std::uint64_t{1} << rng.below(kMostOfRun)};
  set_header(out, h);
}

// Rows of zeros are left out; now and then the bitmap is another, or one row too many is there.
void make_sparse(Rng& rng, Bytes& out) {
  out = made_sparse(std::move(out));
  if ((header_of(out).flags & kFlagSparse) == 0 || !rng.chance(0.03)) return;
  const std::size_t bit = rng.below(64);
  out[out.size() - 1 - bit / 8] ^= std::byte{static_cast<unsigned char>(1U << bit % 8)};
  if (rng.chance(0.5)) out.resize(out.size() + kRowBytes);
}

}  // namespace

jobs::Binding binding_of_sender(const jobs::NativeJob& job, const Header& h) {
  const Rank sender = h.rank_id();
  if (job.racked != 0 && h.job_id() == job.parent.job) return test_parent();
  if (const std::uint32_t server = server_index(sender); server < job.servers) {
    return job.server_ranks.at(server).binding;
  }
  return test_binding(raw(job.id), raw(sender) < job.world ? raw(sender) : 0);
}

void RandomWorld::publish(std::size_t which, const jobs::NativeJob& job) {
  jobs[which] = job;
  table = table->with(job.id, std::make_shared<const jobs::NativeJob>(job));
}

RandomWorld random_world(Rng& rng, bool mixed) {
  RandomWorld w;
  const auto count = mixed ? rng.between(2, 5) : rng.between(1, 3);
  const auto entries = static_cast<std::uint32_t>(mixed ? rng.between(1, 8) : 0);
  std::uint16_t elements = 0;
  for (std::uint16_t id = 1; id <= count; ++id) {
    JobSpec spec = random_spec(rng, mixed);
    spec.id = id;
    spec.first_line = w.lines;
    spec.shared_slots = entries * spec.shards;
    w.jobs.push_back(make_job(spec));
    if (spec.part != nullptr) lose_sight(rng, w.jobs.back());
    (*w.caps)[id] = spec.cap;
    w.lines += w.jobs.back().slots.count;
    w.table = w.table->with(JobId{id}, std::make_shared<const jobs::NativeJob>(w.jobs.back()));
    elements = std::max(elements, spec.elements);
  }
  w.front.assign(w.jobs.size(), static_cast<std::uint32_t>(0) - 20);
  if (!mixed) return w;
  w.lines += static_cast<std::uint32_t>(jobs::shared_lines(entries, elements));
  w.shared = jobs::shared_region(w.lines, entries, elements);
  // From a table that forgets nearly everything to one that forgets nothing.
  w.server_lines = static_cast<std::uint32_t>(rng.below(40)) * jobs::entry_lines(elements);
  return w;
}

jobs::NativeJob with_new_epoch(Rng& rng, const jobs::NativeJob& job) {
  jobs::NativeJob next = job;
  next.epoch = Epoch{static_cast<std::uint32_t>(rng.next() | 1)};
  next.result_cookie = Cookie{rng.next()};
  next.salt = rng.next();
  for (jobs::Member& member : next.ranks) member.cookie = Cookie{rng.next()};
  for (jobs::Member& member : next.server_ranks) member.cookie = Cookie{rng.next()};
  return next;
}

Bytes random_datagram(Rng& rng, const jobs::NativeJob& job, std::uint32_t front) {
  const Rank rank{static_cast<std::uint16_t>(rng.below(job.world))};
  const auto back = rng.chance(0.02) ? rng.below(5 * job.span) : rng.below(8);
  ContributionSpec spec{.rank = rank, .chunk = Chunk{static_cast<std::uint32_t>(front - back)}};
  if (rng.chance(0.01)) spec.chunk = spec.chunk + 3 * job.span;
  const std::uint32_t n =
      rng.chance(0.95) ? job.elements : static_cast<std::uint32_t>(16 * rng.below(job.elements / 16 + 1));
  // All ranks have chunks of one type; some are zeros of most, some of all ranks.
  const std::uint32_t kind = raw(spec.chunk) % 8;
  const bool halves = kind % 2 == 1;
  const bool zero = rng.chance(kind == 7 || kind == 6 ? 1 : kind >= 4 ? 0.7 : 0.02);
  // Halves come to the end of their range now and then, where a lane leaves it.
  const int shift = halves ? (rng.chance(0.9) ? 56 : 48) : rng.chance(0.5) ? 32 : 48;
  for (std::uint32_t i = 0; i < n * (halves ? 2 : 1); ++i) {
    const auto value = static_cast<std::int32_t>(rng.next() >> shift);
    spec.values.push_back(zero ? 0 : halves ? static_cast<std::int16_t>(value) : value);
  }
  // Rows of zeros where they can be left out, of all ranks in half of the chunks.
  const std::uint32_t row = kElementGranule * (halves ? 2 : 1);
  const bool thin = job.sparse && rng.chance(0.7);
  for (std::uint32_t i = 0; thin && i < spec.values.size(); ++i)
    if ((mix64(raw(spec.chunk) / 2 * 1000 + i / row) & 3) != 0) spec.values[i] = 0;
  spec.total = rng.chance(0.99) ? 5000 : 4999;
  spec.exponent = static_cast<std::int8_t>(rng.next());
  spec.flags = static_cast<std::uint8_t>(rng.chance(0.1) ? rng.below(8) : 0);
  if (zero && rng.chance(0.9)) spec.flags |= kFlagZero;
  spec.dtype = static_cast<std::uint8_t>(halves ? Dtype::kInt16 : Dtype::kInt32);
  if (!halves && rng.chance(0.01)) spec.dtype = 1;
  if (shares_slots(job.discipline)) spec.priority = static_cast<std::uint8_t>(rng.below(255));
  if (job.servers != 0 && rng.chance(0.15)) return make_servers(rng, job, spec.chunk, spec);
  if (job.racked != 0 && rng.chance(0.5 / job.world)) return make_parents(rng, job, spec);
  // Most come in the order in which they were sent, and once; some are lost, or come late or again.
  if (rng.chance(0.05)) spec.sequence = static_cast<std::uint32_t>(rng.below(200));
  Bytes out = make_contribution(job, spec);
  const bool all = !job.sparse && rng.chance(0.99);  // who does not use it may say so all the same
  if (!all && (spec.flags & kFlagZero) != 0 && rng.chance(0.5)) {
    make_run(rng, job, spec, out);
  } else if (!all && (spec.flags & kFlagZero) == 0 && rng.chance(0.8)) {
    make_sparse(rng, out);
  }
  if (rng.chance(0.02)) {
    make_answer(rng, job, rank, out);
    if (job.racked != 0 && rng.chance(0.7)) make_across(rng, job, rank, out);
  } else if (rng.chance(0.05)) {
    const auto other = rng.between(1, std::max(job.world - 1U, 1U));
    const Rank peer{static_cast<std::uint16_t>((raw(rank) + other) % job.world)};
    out = rng.chance(0.5) ? make_query(job, rank, spec.chunk, peer) : make_query(job, rank, spec.chunk);
    if (job.racked != 0 && rng.chance(0.4)) make_across(rng, job, rank, out);
  } else if (rng.chance(0.01)) {
    Header h = header_of(out);
    h.slot = {};
    set_header(out, h);
  }
  if (rng.chance(0.06))
    out[rng.below(out.size())] ^= std::byte{static_cast<unsigned char>(1U << rng.below(8))};
  if (rng.chance(0.5)) seal(out);  // else the header check names what was flipped there
  return out;
}

}  // namespace tally
