#include "ps_boxes_support.h"

#include "engine/datagram.h"
#include "jobs/job_table.h"

namespace tally::psbed {
namespace {

constexpr std::uint32_t kElements = 32;

std::size_t lines_of(std::size_t states) { return states * jobs::entry_lines(kElements); }

}  // namespace

Plan plan_of(std::uint16_t world, std::uint8_t boxes, const Routes& routes) {
  Plan plan;
  for (std::uint8_t box = 0; box < boxes; ++box)
    plan.boxes.push_back(mapped({10, 0, 0, static_cast<std::uint8_t>(box + 1)}));
  for (std::uint16_t rank = 0; rank < world; ++rank) {
    RouteTable table;
    for (std::uint32_t group = 0; group < kPlanGroups; ++group) table[group] = routes(rank, group);
    std::size_t at = 0;
    while (at < plan.tables.size() && plan.tables[at] != table) ++at;
    if (at == plan.tables.size()) plan.tables.push_back(table);
    plan.table_of.push_back(static_cast<std::uint8_t>(at));
  }
  return plan;
}

Plan racks(std::uint16_t world, std::uint8_t boxes) {
  return plan_of(world, boxes, [=](std::uint16_t rank, std::uint32_t) {
    return Route{static_cast<BoxIndex>(rank * boxes / world), false};
  });
}

engine::Membership joined_as(const BoxJob& job) {
  engine::Membership m = job.membership();
  for (std::uint16_t rank = 0; rank < job.world; ++rank) m.key_sum += rank_key(m.generation, Rank{rank});
  return m;
}

BoxJob at_box(const BoxJob& home, BoxIndex box) {
  BoxJob job = home;
  job.id = static_cast<std::uint16_t>(home.id + 3 * box);
  job.shards = static_cast<std::uint8_t>(home.shards + box);
  return job;
}

SeveralBoxes::SeveralBoxes(const BoxJob& job, const Plan& plan, std::size_t states)
    : memory_(new jobs::Line[lines_of(states)]),
      table_({memory_.get(), lines_of(states)}, kElements, kernels::best_kernels(), server::Share::kNone),
      timers_(table_.capacity()),
      sums({kernels::best_kernels(), table_, timers_, queue_}, 0, server_rank(job.server), counted) {
  enter(job, plan);
}

void SeveralBoxes::enter(const BoxJob& job, const Plan& plan) {
  job_ = job;
  const auto held = std::make_shared<const Plan>(plan);
  sums.enter(joined_as(job), held, 0);
  for (BoxIndex box = 1; box < plan.boxes.size(); ++box) sums.open(box, JobId{at(box).id}, at(box).shards);
}

std::optional<Refused> SeveralBoxes::refused(BoxIndex box, const Bytes& bytes) {
  engine::Datagram datagram;
  if (const auto wrong =
          engine::open_datagram(bytes, kernels::best_kernels(), datagram, engine::Opener::kServer))
    return wrong;
  return sums.receive(datagram, box, now);
}

void SeveralBoxes::hear(BoxIndex box, const Bytes& datagram) {
  const auto wrong = refused(box, datagram);
  EXPECT_FALSE(wrong) << name_of(*wrong);
}

std::vector<BoxOut> SeveralBoxes::drain() {
  std::vector<BoxOut> all;
  sums.time_out(now);
  while (auto owed = queue_.pop()) {
    do {
      BoxOut out;
      out.bytes.resize(engine::max_datagram_bytes(kElements));
      const std::size_t bytes = sums.write(*owed, out.bytes, out.port, out.box);
      out.bytes.resize(bytes);
      if (bytes != 0) all.push_back(std::move(out));
    } while (owed->ranks != 0);
  }
  return all;
}

std::vector<std::string> SeveralBoxes::story(TimeNs end) {
  std::vector<std::string> told;
  const TimeNs start = now;
  while (sums.deadline() < end) {
    now = std::max(now, sums.deadline());
    ++turns;
    for (const BoxOut& out : drain()) {
      const Header h = out.header();
      std::string what = std::to_string((now - start) / kMillisecond);
      if (h.type == PacketType::kFlush)
        what += " flush";
      else if (h.type == PacketType::kResend)
        what += " resend " + std::to_string(h.contributors.host());
      else
        what += " other";
      told.push_back(what + " to " + std::to_string(out.box));
    }
  }
  now = end;
  return told;
}

}  // namespace tally::psbed
