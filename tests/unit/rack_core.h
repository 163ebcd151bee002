#pragma once
// A core at the box of a rack of three, in both executions: what its workers send, what its parent says, and what must come
// of both (docs/protocol_racks.md, 18.3).

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "shared_core.h"

namespace tally {

inline constexpr std::uint8_t kRackCount = 3;
inline constexpr std::uint8_t kOurRack = 1;  // ours
inline constexpr std::uint64_t kAllRacks = 0b111;
inline constexpr JobId kAbove{999};  // at the parent: kJobAbove - 1
inline constexpr Chunk kSome{5};

template <class Exec>
class RackCore : public SharedCore<Exec> {
 protected:
  jobs::NativeJob rack_job(JobSpec spec = {}) {
    this->start(0);
    spec.epoch += 0x10000;
    spec.racks = kRackCount;
    return put(make_job(spec));
  }
  jobs::NativeJob put(const jobs::NativeJob& job) {
    this->adopt(this->table_->with(job.id, std::make_shared<const jobs::NativeJob>(job)));
    return job;
  }
  pipeline::Outcome give(const jobs::NativeJob& job, std::uint32_t rank, Chunk chunk = kSome, Sent how = {}) {
    how.total = 16;
    return this->send(job, rank, chunk, how);
  }
  // All of the rack: what the last one makes.
  pipeline::Outcome give_all(const jobs::NativeJob& job, Chunk chunk = kSome) {
    for (std::uint32_t r = 0; r + 1 < job.world; ++r) {
      const pipeline::Outcome out = give(job, r, chunk);
      EXPECT_EQ(out.verdict, Verdict::kAbsorb) << name_of(out.drop);
      EXPECT_EQ(out.server, pipeline::kNoServer);
    }
    return give(job, job.world - 1U, chunk);
  }
  // Everything of a packet of the parent but what the test changes.
  struct Above {
    Chunk chunk = kSome;
    std::int32_t value = 4242;
    std::uint8_t flags = 0;
    std::uint32_t off = 0;  // added to sum1
  };
  static Bytes result_of(const jobs::NativeJob& job, const Above& how) {
    const bool zero = (how.flags & kFlagZero) != 0;
    Bytes out = make_result_above(job, how.chunk, std::vector<std::int32_t>(16, zero ? 0 : how.value), 0,
                                  how.flags, 16);
    Header h = header_of(out);
    h.sum1 = Be{h.sum1.host() + how.off};
    set_header(out, h);
    return out;
  }
  static Bytes query_of_rack(const jobs::NativeJob& job, std::uint16_t rack, std::uint32_t total,
                             Chunk chunk = kSome) {
    return make_query_above(job, chunk, rack, total);
  }
  pipeline::Outcome from_parent(const Bytes& datagram, std::uint16_t port = kBasePort,
                                std::size_t room = 4 * kMaxElements) {
    jobs::Binding from = test_parent();
    from.udp_port = port;
    this->frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, true, room);
    return this->pipeline_->process(this->frame_->frame(), this->now_);
  }
  template <class F>
  pipeline::Outcome changed(Bytes datagram, F change) {
    Header h = header_of(datagram);
    change(h);
    set_header(datagram, h);
    return from_parent(datagram);
  }
  static Header header(const pipeline::Outcome& out) { return header_of({out.payload, kHeaderBytes}); }
  static std::int32_t value(const pipeline::Outcome& out, std::size_t i = 0) {
    Be<std::int32_t> word;
    std::memcpy(&word, out.payload + kHeaderBytes + 4 * i, sizeof word);
    return word.host();
  }
  // The CONTRIBUTE of the rack.
  void expect_up(const pipeline::Outcome& out, const jobs::NativeJob& job, std::uint32_t sequence,
                 std::uint8_t flags = 0, Chunk chunk = kSome, Verdict verdict = Verdict::kAbsorb) {
    ASSERT_EQ(out.verdict, verdict) << name_of(out.verdict) << " " << name_of(out.drop);
    ASSERT_EQ(out.server, pipeline::kToParent);
    ASSERT_EQ(out.payload_bytes, kHeaderBytes + 64U);
    const Header h = header(out);
    EXPECT_EQ(h.type, PacketType::kContribute);
    EXPECT_EQ(h.flags, flags);
    EXPECT_EQ(h.job_id(), kAbove);
    EXPECT_EQ(raw(h.rank_id()), kOurRack);
    EXPECT_EQ(h.epoch_id(), job.epoch);
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.sequence(), sequence);
    EXPECT_EQ(h.elements.host(), 16U);
    EXPECT_EQ(h.contributors.host(), 1ULL << kOurRack);
    EXPECT_EQ(h.cookie.host(), raw(job.parent.cookie));
    EXPECT_EQ(h.total.host(), 16U);
    std::uint32_t sum = 0;
    for (std::uint32_t r = 0; r < job.world; ++r) sum += static_cast<std::uint32_t>(value_of(r, chunk));
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(static_cast<std::uint32_t>(value(out, i)), sum);
    EXPECT_EQ(h.sum1.host(), 16 * sum + keyed(job.key_sum, chunk));
    EXPECT_EQ(h.sum2.host(), 136 * sum);
    Bytes again(out.payload, out.payload + out.payload_bytes);
    set_header(again, h);
    EXPECT_EQ(header_of(again).check.host(), h.check.host());
  }
  // The parent's RESULT as the workers get it.
  void expect_down(const pipeline::Outcome& out, Verdict verdict, const jobs::NativeJob& job,
                   std::uint64_t ranks, std::uint8_t flags, Chunk chunk = kSome,
                   std::int32_t expected = 4242) {
    ASSERT_EQ(out.verdict, verdict) << name_of(out.verdict) << " " << name_of(out.drop);
    EXPECT_EQ(out.server, pipeline::kNoServer);
    EXPECT_EQ(out.ranks, ranks);
    ASSERT_NE(out.job, nullptr);
    EXPECT_EQ(out.job->id, job.id);
    const Header h = header(out);
    EXPECT_EQ(h.type, PacketType::kResult);
    EXPECT_EQ(h.flags, flags);
    EXPECT_EQ(h.job_id(), job.id);
    EXPECT_EQ(h.rank_id(), kSwitchRank);
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.contributors.host(), job.members) << "the ranks of this rack";
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
    const auto sum = static_cast<std::uint32_t>(expected);
    EXPECT_EQ(h.sum1.host(), 16 * sum + keyed(job.parent.key_sum, chunk))
        << "keys of all workers of all racks";
    EXPECT_EQ(h.sum2.host(), 136 * sum);
    if ((flags & kFlagZero) != 0) {
      EXPECT_EQ(out.payload_bytes, kHeaderBytes);
      return;
    }
    ASSERT_EQ(out.payload_bytes, kHeaderBytes + 64U);
    for (std::size_t i = 0; i < 16; ++i) EXPECT_EQ(value(out, i), expected);
  }
  void wait(TimeNs time = 2 * kMillisecond) { this->now_ += time; }
};

}  // namespace tally
