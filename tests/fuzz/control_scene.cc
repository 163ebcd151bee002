#include "control_scene.h"

#include <algorithm>
#include <cstring>

#include "kernels/kernels.h"
#include "members/room.h"
#include "tally/check.h"

namespace tally {
namespace {

std::uint32_t lines_of(const jobs::Row& row) {
  if (const auto* session = jobs::row_as<jobs::SessionJob>(row); session != nullptr)
    return jobs::session_lines(session->slot_count, session->world, session->payload);
  const auto& job = *jobs::row_as<jobs::NativeJob>(row);
  return members::own_lines(job.discipline, job.window, job.span, job.shards, job.elements);
}

}  // namespace

Header header_of(std::span<const std::byte> datagram) {
  Header h;
  std::memcpy(&h, datagram.data(), sizeof h);
  return h;
}

void reseal(Bytes& datagram) {
  if (datagram.size() < kHeaderBytes) return;
  const auto& crc32c = kernels::best_kernels().crc32c;
  Header h = header_of(datagram);
  const std::size_t payload = datagram.size() - kHeaderBytes;
  h.sum1 = Be{payload == 0 ? std::uint32_t{0} : crc32c(datagram.data() + kHeaderBytes, payload)};
  std::memcpy(datagram.data(), &h, sizeof h);
  h.check = Be{crc32c(datagram.data(), kCheckedBytes)};
  std::memcpy(datagram.data(), &h, sizeof h);
}

void retag(Bytes& datagram, const auth::Key& key) {
  if (datagram.size() < kHeaderBytes + kTagBytes) return;
  const auto body = auth::body_of(std::span<const std::byte>(datagram).subspan(kHeaderBytes));
  wire_put(datagram.data() + datagram.size() - kTagBytes, auth::tag_of(key, header_of(datagram), body));
  reseal(datagram);
}

void Cores::load(const jobs::Publication& publication) {
  TALLY_CHECK(publication.version > newest_, "versions increase");
  newest_ = publication.version;
  for (const jobs::FreedLines& freed : publication.freed) {
    TALLY_CHECK(freed.lines.first + freed.lines.count <= lines_.size(), "freed lines exist");
    for (std::uint32_t i = 0; i < freed.lines.count; ++i) {
      Use& use = lines_[freed.lines.first + i];
      TALLY_CHECK(use.job == JobId{} || use.job == freed.job, "only the job's own lines are freed");
      TALLY_CHECK(use.in_front == 0 || freed.elements == 0 || use.in_front == freed.in_front,
                  "freed by the layout that they had");
      use = {};
    }
  }
  std::vector<JobId> taken(lines_.size());
  for (std::uint16_t id = 1; id <= kMaxJobs; ++id) {
    const jobs::Row& any = publication.table->row(JobId{id});
    const jobs::Job* const row = jobs::job_of(any);
    if (row == nullptr) continue;
    TALLY_CHECK(row->id == JobId{id} && row->epoch != Epoch{}, "a row of the job");
    TALLY_CHECK(row->slots.count == lines_of(any), "lines of the row");
    TALLY_CHECK(row->slots.first + row->slots.count <= lines_.size(), "lines exist");
    for (std::uint32_t i = row->slots.first; i < row->slots.first + row->slots.count; ++i) {
      Use& use = lines_[i];
      TALLY_CHECK(taken[i] == JobId{}, "no line in two rows");
      TALLY_CHECK(use.job == JobId{} ||
                      (use.job == row->id && use.first == row->slots.first && use.elements == row->elements),
                  "a line is zeroed before it changes hands or layout");
      taken[i] = row->id;
      use = {row->id, row->slots.first, row->elements,
             jobs::row_as<jobs::SessionJob>(any) != nullptr ? jobs::session_front_lines(row->world) : 1};
    }
  }
  tables_[publication.version] = publication.table;
  versions_.push_back(publication.version);
}

void Cores::forget() { lines_.assign(lines_.size(), {}); }

void Cores::reached(std::uint64_t version) {
  in_force_ = tables_.at(version);
  std::erase_if(tables_, [&](const auto& t) { return t.first <= version; });
  std::erase_if(versions_, [&](std::uint64_t v) { return v <= version; });
}

jobs::Row Cores::in_force(JobId id) const {
  return in_force_ == nullptr || raw(id) > kMaxJobs ? jobs::Row{} : in_force_->row(id);
}

}  // namespace tally
