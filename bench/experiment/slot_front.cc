#include "slot_front.h"

#include <unordered_set>
#include <vector>

#include "engine/datagram.h"
#include "jobs.h"
#include "jobs/layout.h"
#include "kernels/kernels.h"
#include "tally/discipline.h"
#include "tally/mix64.h"

namespace tally::experiment {
namespace {

constexpr std::uint64_t key_of(const jobs::NativeJob& job, Chunk chunk) noexcept {
  return std::uint64_t{raw(job.id)} << 32 | raw(chunk);
}

// ATP: first come, first served by hash. A complete sum goes to the server, and its slot is free when the
// server's result passes, which acknowledges it. `holds` false: free at once, but still by way of the server.
class AtpHash final : public SlotFront {
 public:
  AtpHash(std::uint32_t slots, bool holds) : slots_(slots), holds_(holds) {}

  bool arrives(const jobs::NativeJob& job, Header& header,
               pipeline::Pipeline<pipeline::Fused>& /*pipeline*/) override {
    const Held& held = at(job, header.chunk_id());
    if (!held.waits || held.key == key_of(job, header.chunk_id())) return false;
    header.flags |= kFlagDirect;
    return true;
  }
  bool finished(const jobs::NativeJob& job, Chunk chunk) override {
    Held& held = at(job, chunk);
    if (!held.waits) held_ += holds_ ? 1 : 0;
    held = {key_of(job, chunk), holds_};
    return true;
  }
  // The FLUSH behind the server's result is for what it has already.
  bool heard(const jobs::NativeJob& job, const Header& header) override {
    Held& held = at(job, header.chunk_id());
    if (held.key != key_of(job, header.chunk_id())) return false;
    if (header.type == PacketType::kFlush) return true;
    if (held.waits) --held_;
    held.waits = false;
    return false;
  }
  std::uint32_t held() const noexcept override { return held_; }

 private:
  struct Held {
    std::uint64_t key = 0;  // of the chunk that was finished here last
    bool waits = false;     // for its acknowledgement
  };
  Held& at(const jobs::NativeJob& job, Chunk chunk) noexcept {
    return slots_[slot_of(jobs::slot_map(job), chunk)];
  }

  std::vector<Held> slots_;
  bool holds_;
  std::uint32_t held_ = 0;
};

// Any free slot, from the product's free list, and no swap: what finds none goes to the server. It keeps the
// ledger, so a chunk that was split does not wait for a FLUSH. `acknowledged`: slots are held as in ATP.
class AnyFree final : public SlotFront {
 public:
  AnyFree(std::uint32_t slots, bool acknowledged) : slots_(slots), acknowledged_(acknowledged) {}

  bool arrives(const jobs::NativeJob& job, Header& header,
               pipeline::Pipeline<pipeline::Fused>& pipeline) override {
    if (pipeline.shared().filling() + held() < slots_ || has_entry(job, header.chunk_id(), pipeline))
      return false;
    header.flags |= kFlagDirect;
    return true;
  }
  bool finished(const jobs::NativeJob& job, Chunk chunk) override {
    if (acknowledged_) waiting_.insert(key_of(job, chunk));
    return acknowledged_;
  }
  bool heard(const jobs::NativeJob& job, const Header& header) override {
    if (!acknowledged_) return false;
    if (header.type == PacketType::kResult) {
      if (waiting_.erase(key_of(job, header.chunk_id())) != 0)
        flushed_.insert(key_of(job, header.chunk_id()));
      return false;
    }
    return header.type == PacketType::kFlush && flushed_.erase(key_of(job, header.chunk_id())) != 0;
  }
  std::uint32_t held() const noexcept override { return static_cast<std::uint32_t>(waiting_.size()); }

 private:
  static bool has_entry(const jobs::NativeJob& job, Chunk chunk,
                        pipeline::Pipeline<pipeline::Fused>& pipeline) noexcept {
    const std::uint32_t row =
        job.slots.first * jobs::kLedgerRowsPerLine + slot_of(jobs::slot_map(job), chunk);
    const pipeline::LedgerRow ledger = pipeline.execution().peek<pipeline::LedgerReg>(row);
    if (ledger.seen == 0 || ledger.chunk != raw(chunk) || ledger.entry == 0) return false;
    if (ledger.entry == pipeline::LedgerRow::kAsking) return false;
    const pipeline::Head head = pipeline.execution().head(pipeline.shared().line_of(ledger.entry - 1));
    return head.tag == raw(job.epoch) && head.chunk == raw(chunk);
  }

  std::uint32_t slots_;
  bool acknowledged_;
  std::unordered_set<std::uint64_t> waiting_;
  std::unordered_set<std::uint64_t> flushed_;  // acknowledged, the FLUSH behind is to come
};

class RandomPriority final : public SlotFront {
 public:
  bool arrives(const jobs::NativeJob& job, Header& header,
               pipeline::Pipeline<pipeline::Fused>& /*pipeline*/) override {
    header.priority = static_cast<std::uint8_t>(mix64(job.salt ^ key_of(job, header.chunk_id())) % 255);
    return true;
  }
  bool finished(const jobs::NativeJob& /*job*/, Chunk /*chunk*/) override { return false; }
  bool heard(const jobs::NativeJob& /*job*/, const Header& /*header*/) override { return false; }
};

}  // namespace

std::unique_ptr<SlotFront> front_of(const Setting& setting, std::uint32_t slots) {
  switch (setting.row.front) {
    case Front::kAtpHash:
      return std::make_unique<AtpHash>(slots, true);
    case Front::kViaServer:
      return std::make_unique<AtpHash>(slots, false);
    case Front::kAtpAnyFree:
      return std::make_unique<AnyFree>(slots, true);
    case Front::kNoSwap:
      return std::make_unique<AnyFree>(slots, false);
    case Front::kRandomPriority:
      return std::make_unique<RandomPriority>();
    case Front::kNone:
      break;
  }
  return nullptr;
}

void GapRepair::at_server(JobId job, Chunk chunk) {
  Chunks& chunks = at(job);
  if (raw(chunk) < chunks.finished.size() && chunks.finished[raw(chunk)]) return;
  chunks.open.try_emplace(raw(chunk), 0);
}

std::vector<Chunk> GapRepair::finished(const jobs::NativeJob& job, Chunk chunk, TimeNs now) {
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

void write_flush(Packet& packet, const jobs::NativeJob& job, Chunk chunk) {
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
