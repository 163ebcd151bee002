#include "pipeline/pipeline_session.h"

#include <bit>
#include <cstring>

#include "pipeline/session_pool.h"
#include "tally/switchml.h"

namespace tally::pipeline {
namespace {

constexpr std::uint8_t kTypeMask = 0xF0, kType = 0x10, kSizeMask = 0x07;  // bit 3 is not looked at
constexpr std::uint16_t kAnySlot = 0x7FFF;  // with bit 14, which is in no session's range

}  // namespace

UdpHeader udp_before(const std::byte* datagram) noexcept {
  UdpHeader udp;
  std::memcpy(&udp, datagram - sizeof udp, sizeof udp);
  return udp;
}

void match_session(Parsed& parsed, const OpenedFrame& datagram, const jobs::JobTable* table,
                   std::uint8_t core) noexcept {
  jobs::Binding source = datagram.source;
  source.udp_port = udp_before(datagram.payload).destination.host();
  const jobs::SessionMember from =
      table != nullptr ? table->member(jobs::sender_of(source)) : jobs::SessionMember{};
  if (from.job == nullptr) return parsed.refuse(Drop::kMember);
  const jobs::SessionJob& job = *from.job;
  parsed.job = &job;

  switchml::PacketHeader h;
  std::memcpy(&h, datagram.payload, sizeof h);
  if ((h.type_size & kTypeMask) != kType) return parsed.refuse(Drop::kType);
  if (switchml::kMinPayload << (h.type_size & kSizeMask) != job.payload)
    return parsed.refuse(Drop::kElements);
  if (datagram.payload_bytes != switchml::kHeaderBytes + job.payload) return parsed.refuse(Drop::kLength);
  const std::uint16_t pool_index = h.pool_index.host();
  const std::uint32_t slot = pool_index & kAnySlot;
  if (slot >= job.slot_count) return parsed.refuse(Drop::kSlot);

  Contribution& p = parsed.contribution;
  p.values = datagram.payload + switchml::kHeaderBytes;
  p.line = session_line(job, slot, (pool_index & switchml::kSetBit) != 0 ? 1 : 0);
  p.chunk = Chunk{h.tsi()};
  p.slot = SlotIndex{slot};
  p.epoch = job.epoch;
  p.rank = from.rank;
  p.bit = bit_of(from.rank);
  p.sum.shape = {.elements = job.elements};
  p.sum.exponent = h.exponent0;
  p.sum.marks = jobs::kMarkValues;
  p.form = Form::kWords;
  parsed.owner = job.home;
  parsed.kind = parsed.owner == core ? Kind::kSession : Kind::kElsewhere;
}

}  // namespace tally::pipeline
