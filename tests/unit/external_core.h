#pragma once
// A switch core whose jobs have external servers: what these say to it, and what it must say to them.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/kernels.h"
#include "shared_core.h"

namespace tally {

template <class Exec>
class ExternalCore : public SharedCore<Exec> {
 protected:
  pipeline::Outcome say(const jobs::NativeJob& job, const Bytes& datagram) {
    const jobs::Binding& from = job.server_ranks.at(server_index(header_of(datagram).rank_id())).binding;
    return arrive(datagram, from);
  }
  pipeline::Outcome arrive(const Bytes& datagram, const jobs::Binding& from) {
    this->frame_.emplace(wrap(datagram, from, test_box(), kBasePort), from.port, true, 4 * kMaxElements);
    return this->pipeline_->process(this->frame_->frame(), this->now_);
  }
  static std::vector<std::int32_t> sum_of(const jobs::NativeJob& job, Chunk chunk) {
    std::int32_t sum = 0;
    for (std::uint32_t r = 0; r < job.world; ++r) sum += value_of(r, chunk);
    return std::vector<std::int32_t>(16, sum);
  }
  static std::int32_t first_value(const pipeline::Outcome& out) {
    Be<std::uint32_t> value;
    std::memcpy(&value, out.payload + kHeaderBytes, sizeof value);
    return static_cast<std::int32_t>(value.host());
  }
  // What leaves for the chunk's server is of `job` and carries what `ranks` sent, with sums that say so.
  static void expect_departs(const pipeline::Outcome& out, const jobs::NativeJob& job, Chunk chunk,
                             std::uint64_t ranks) {
    ASSERT_NE(out.server, pipeline::kNoServer) << name_of(out.verdict) << " " << name_of(out.drop);
    EXPECT_EQ(out.server, jobs::server_of(job, chunk));
    ASSERT_NE(out.job, nullptr);
    EXPECT_EQ(out.job->id, job.id);
    ASSERT_EQ(out.payload_bytes, kHeaderBytes + 4U * 16);
    const Header h = header_of({out.payload, kHeaderBytes});
    EXPECT_EQ(h.job_id(), job.id);
    EXPECT_EQ(h.epoch_id(), job.epoch);
    EXPECT_EQ(h.chunk_id(), chunk);
    EXPECT_EQ(h.contributors.host(), ranks);
    EXPECT_EQ(h.cookie.host(), raw(job.result_cookie));
    std::int32_t sum = 0;
    for (std::uint32_t r = 0; r < job.world; ++r) sum += (ranks >> r & 1) != 0 ? value_of(r, chunk) : 0;
    EXPECT_EQ(first_value(out), sum);
    const kernels::Sums sums = kernels::best_kernels().sums(out.payload + kHeaderBytes, 16);
    EXPECT_EQ(h.sum1.host(), sums.sum1 + keyed(jobs::keys_of(job, ranks), chunk));
    EXPECT_EQ(h.sum2.host(), sums.sum2);
    Bytes sealed(out.payload, out.payload + out.payload_bytes);
    seal(sealed);
    EXPECT_EQ(header_of(sealed).check.host(), h.check.host());
  }
  static PacketType type_of(const pipeline::Outcome& out) {
    return header_of({out.payload, kHeaderBytes}).type;
  }
  static std::uint8_t flags_of(const pipeline::Outcome& out) {
    return header_of({out.payload, kHeaderBytes}).flags;
  }
};

}  // namespace tally
