// The external servers of the shared scene: one merge table for both, and the rules of
// docs/protocol_server.md. Of a job over several boxes this is one; the others are not here: what their ranks
// send comes to this one, which passes it on, and what a server says to them is theirs.

#include <bit>
#include <cstring>

#include "shared_scene.h"
#include "tally/check.h"

namespace tally {
namespace {

std::vector<std::int32_t> values_of(const server::Partial& p) {
  std::vector<std::int32_t> values(p.sum.shape.elements);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Be<std::uint32_t> value;
    std::memcpy(&value, p.values + 4 * i, sizeof value);
    values[i] = static_cast<std::int32_t>(value.host());
  }
  return values;
}

}  // namespace

void SharedScene::depart(const pipeline::Outcome& out) {
  const Header h = header_of({out.payload, kHeaderBytes});
  const SharedLife& l = lives_.at(h.job.host() - 1U);
  const jobs::NativeJob row = l.row;
  TALLY_CHECK(l.present && out.job->id == row.id, "it leaves for a job that lives");
  TALLY_CHECK(out.server == jobs::server_of(row, h.chunk_id()), "it leaves for the chunk's server");
  TALLY_CHECK(h.epoch_id() == row.epoch && h.cookie.host() == raw(row.result_cookie), "secrets of the job");
  TALLY_CHECK(h.slot.host() == slot_of(jobs::slot_map(row), h.chunk_id()), "slot of the chunk");
  const std::uint64_t ranks = h.contributors.host();
  TALLY_CHECK(ranks != 0 && (ranks & ~row.members) == 0, "it is of members");
  TALLY_CHECK(out.payload_bytes == kHeaderBytes + 4U * h.elements.host(), "it has its values");
  if (h.type == PacketType::kQuery) return asked(row, h);

  Bytes values(out.payload + kHeaderBytes, out.payload + out.payload_bytes);
  values.resize(std::size_t{4} * kSharedElements);
  server::Partial p{.chunk = h.chunk_id(),
                    .contributors = ranks,
                    .keys = jobs::keys_of(row, ranks),
                    .sum = jobs::sum_of(h),
                    .values = values.data(),
                    .room = kSharedElements};
  const server::MergeResult result =
      external_.merge({row.id, row.generation, row.epoch, row.members, row.key_sum}, p, now_);
  TALLY_CHECK(result.merged != server::Merged::kBadInput || l.corrupt, "what leaves is what came");
  TALLY_CHECK(result.merged != server::Merged::kMismatch || l.rogue, "ranks agree");
  TALLY_CHECK(result.merged != server::Merged::kBadSum || l.corrupt, "the sum is right");
  const bool complete = result.merged == server::Merged::kComplete;
  if (!complete && result.merged != server::Merged::kKnown) return;
  give(row, p, complete ? row.members : ranks, complete);
  if (complete) say(row, make_server_packet(row, PacketType::kFlush, p.chunk, 0));
}

// Who lacks its result: the result, or the wish for its contribution.
void SharedScene::asked(const jobs::NativeJob& row, const Header& h) {
  TALLY_CHECK(row.planned && std::has_single_bit(h.contributors.host()), "it asks for its sender");
  Bytes values(std::size_t{4} * kSharedElements);
  server::Partial p{.chunk = h.chunk_id(), .values = values.data(), .room = kSharedElements};
  const server::MergeJob job{row.id, row.generation, row.epoch, row.members, row.key_sum};
  if (external_.read(job, p)) return give(row, p, h.contributors.host(), false);
  say(row, make_server_packet(row, PacketType::kResend, p.chunk, h.contributors.host()));
}

void SharedScene::give(const jobs::NativeJob& row, const server::Partial& p, std::uint64_t ranks,
                       bool complete) {
  const std::uint64_t here = ranks & jobs::through_of(row, p.chunk);
  if (row.id == awaited_job_ && p.chunk == awaited_) received_ |= ranks & ~here;
  if (here == 0) return;
  Bytes answer = make_server_packet(row, PacketType::kResult, p.chunk, here, values_of(p));
  Header a = header_of(answer);
  a.flags = static_cast<std::uint8_t>((complete ? 0 : kFlagRetransmit) | jobs::flags_of(p.sum));
  a.exponent = p.sum.exponent;
  a.dtype = p.sum.shape.dtype;
  a.total = Be{p.sum.shape.total};
  set_header(answer, a);
  say(row, answer);
}

void SharedScene::say(const jobs::NativeJob& row, const Bytes& datagram) {
  const std::uint32_t server = server_index(header_of(datagram).rank_id());
  const pipeline::Outcome out = pass(row, row.server_ranks.at(server).binding, datagram, false);
  TALLY_CHECK(out.verdict != Verdict::kDrop, "the box believes its servers");
}

}  // namespace tally
