#include "gap_repair.h"

#include "engine/datagram.h"
#include "jobs.h"
#include "kernels/kernels.h"
#include "tally/discipline.h"

namespace tally::experiment {

void GapRepair::at_server(JobId job, Chunk chunk) {
  Chunks& chunks = at(job);
  if (raw(chunk) < chunks.finished.size() && chunks.finished[raw(chunk)]) return;
  chunks.open.try_emplace(raw(chunk), 0);
}

std::vector<Chunk> GapRepair::finished(const jobs::Job& job, Chunk chunk, TimeNs now) {
  Chunks& chunks = at(job.id);
  if (raw(chunk) >= chunks.finished.size()) chunks.finished.resize(2 * (raw(chunk) + 1U));
  chunks.finished[raw(chunk)] = true;
  chunks.open.erase(raw(chunk));
  std::vector<Chunk> stuck;
  for (auto& [earlier, flushed_at] : chunks.open) {
    if (earlier > raw(chunk)) break;
    if (flushed_at != 0 && now - flushed_at <= again_after_) continue;
    flushed_at = now;
    stuck.push_back(Chunk{earlier});
  }
  return stuck;
}

void write_flush(Packet& packet, const jobs::Job& job, Chunk chunk) {
  Header h;
  h.type = PacketType::kFlush;
  h.priority = job.max_priority;
  h.job = Be{raw(job.id)};
  h.rank = Be{raw(server_rank(0))};
  h.epoch = Be{raw(job.epoch)};
  h.chunk = Be{raw(chunk)};
  h.slot = Be{slot_of(jobs::slot_map(job), chunk)};
  h.cookie = Be{raw(job.server_ranks[0].cookie)};
  packet.datagram_bytes = kHeaderBytes;
  engine::seal(h, 0, std::span{packet.bytes}.subspan(kOuterBytes), kernels::best_kernels());
  OuterHeaders(job.server_ranks[0].binding, test_box()).put(packet, kBasePort);
}

}  // namespace tally::experiment
