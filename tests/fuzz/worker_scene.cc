#include "worker_scene.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/kernels.h"
#include "tally/check.h"
#include "tally/mix64.h"
#include "tally/rows.h"

namespace tally {
namespace {

constexpr std::size_t kMostDatagrams = 20'000;  // far above the window and all the answers owed

std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  Be<std::uint32_t> word;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word.host();
}

// sum1 without keys, and sum2, of 32-bit values. Of rows that are not those of the bitmap: anything.
std::pair<std::uint32_t, std::uint32_t> sums_of(std::span<const std::byte> datagram) {
  const Header h = header_of(datagram);
  Bytes dense;
  if ((h.flags & kFlagSparse) != 0 && valid_elements(h.elements.host())) {
    const auto values = datagram.subspan(kHeaderBytes);
    const std::uint32_t rows = rows_of(h.elements.host(), 0);
    if (are_rows(values.data(), rows, values.size())) {
      dense.resize(kHeaderBytes + std::size_t{kRowBytes} * rows);
      unpack_rows(values.data(), dense.data() + kHeaderBytes, rows, values.size());
      datagram = dense;
    }
  }
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  for (std::uint32_t i = 0; kHeaderBytes + 4 * i + 4 <= datagram.size(); ++i) {
    const std::uint32_t value = word_at(datagram, kHeaderBytes + 4 * i);
    sum1 += value;
    sum2 += (i + 1) * value;
  }
  return {sum1, sum2};
}

std::uint32_t keys(const engine::Membership& m, Chunk chunk) {
  std::uint32_t sum = 0;
  for (std::uint16_t r = 0; r < m.world; ++r) sum += rank_key(m.generation, Rank{r}) * (2 * raw(chunk) + 1);
  return sum;
}

// As a RESULT or a ZERO RUN of all members has them.
std::pair<std::uint32_t, std::uint32_t> all_sums_of(std::span<const std::byte> datagram,
                                                    const engine::Membership& m) {
  const Header h = header_of(datagram);
  if (h.type != PacketType::kZeroRun) {
    const auto [sum1, sum2] = sums_of(datagram);
    return {sum1 + keys(m, h.chunk_id()), sum2};
  }
  std::uint32_t sum1 = 0;
  std::uint32_t sum2 = 0;
  for (std::uint32_t i = 0; i < kMostOfRun; ++i) {
    if ((h.contributors.host() >> i & 1) == 0) continue;
    const std::uint32_t one = keys(m, h.chunk_id() + i * m.shards);
    sum1 += one;
    sum2 += (i + 1) * one;
  }
  // The exponents behind the header are values behind those.
  for (std::size_t i = 0; kHeaderBytes + 4 * i + 4 <= datagram.size(); ++i) {
    const auto word = wire_at<Be<std::uint32_t>>(datagram.data() + kHeaderBytes + 4 * i).host();
    sum1 += word;
    sum2 += static_cast<std::uint32_t>(kMostOfRun + i + 1) * word;
  }
  return {sum1, sum2};
}

}  // namespace

Header header_of(std::span<const std::byte> datagram) {
  Header h;
  std::memcpy(&h, datagram.data(), sizeof h);
  return h;
}

void reseal(Bytes& datagram) {
  if (datagram.size() < kHeaderBytes) return;
  Header h = header_of(datagram);
  const auto& crc32c = kernels::best_kernels().crc32c;
  if (is_control(h.type) || h.type == PacketType::kReject) {
    h.sum1 = Be{crc32c(datagram.data() + kHeaderBytes, datagram.size() - kHeaderBytes)};
    std::memcpy(datagram.data(), &h, sizeof h);
  }
  h.check = Be{crc32c(datagram.data(), kCheckedBytes)};
  std::memcpy(datagram.data(), &h, sizeof h);
}

void retag(Bytes& datagram, const engine::Membership& membership) {
  if (datagram.size() < kHeaderBytes + kTagBytes) return;
  const Header h = header_of(datagram);
  const auto body = auth::body_of(std::span<const std::byte>(datagram).subspan(kHeaderBytes));
  const bool of_session = h.type != PacketType::kJoined && h.slot.host() != 2;
  wire_put(datagram.data() + datagram.size() - kTagBytes,
           auth::tag_of(of_session ? membership.session : Speaker::job_key(), h, body));
}

void resum(Bytes& datagram, const engine::Membership& membership) {
  if (datagram.size() < kHeaderBytes) return;
  Header h = header_of(datagram);
  const auto [sum1, sum2] = all_sums_of(datagram, membership);
  h.sum1 = Be{sum1};
  h.sum2 = Be{sum2};
  std::memcpy(datagram.data(), &h, sizeof h);
}

bool sums_right(std::span<const std::byte> datagram, const engine::Membership& membership) {
  const Header h = header_of(datagram);
  const auto [sum1, sum2] = all_sums_of(datagram, membership);
  return h.sum1.host() == sum1 && h.sum2.host() == sum2;
}

engine::Membership Speaker::membership() const {
  engine::Membership m;
  m.job = JobId{7};
  m.epoch = Epoch{epoch};
  m.cookie = Cookie{std::uint64_t{0xC000} + epoch};
  m.result_cookie = Cookie{result_cookie()};
  m.generation = Generation{generation};
  m.first_chunk = Chunk{first_chunk};
  m.largest_window = m.lookahead = 16;
  m.elements = kElements;
  m.window = window;
  m.world = kWorld;
  m.shards = 2;
  m.max_priority = 0;
  m.sparse = sparse;
  m.lease = 10 * kSecond;
  m.session = auth::session_key(job_key(), m.generation, m.epoch, m.result_cookie, m.cookie, 77, kSelf);
  return m;
}

Header Speaker::header(PacketType type) const { return box_header(membership(), type); }

Bytes Speaker::joined(JoinStatus status, std::uint64_t nonce, std::span<const std::byte> text) const {
  return box_joined(membership(), status, nonce, job_key(), 5, text);
}

Bytes Speaker::tells(PacketType type, std::span<const std::byte> text) {
  return box_says(header(type), ++counter, membership().session, text);
}

Bytes Speaker::calls_back() {
  Header h = header(PacketType::kReject);
  h.slot = Be{static_cast<std::uint32_t>(RejectReason::kEpoch)};
  return box_says(h, ++counter, membership().session);
}

Bytes Speaker::knows_nothing_of(std::uint64_t answered) const {
  Header h = header(PacketType::kReject);
  h.slot = Be{static_cast<std::uint32_t>(RejectReason::kJob)};
  return box_says(h, answered, job_key());
}

Bytes Speaker::result_of(std::span<const std::byte> contribution) const {
  const Header c = header_of(contribution);
  const bool run = c.type == PacketType::kZeroRun;
  Header h = header(run ? c.type : PacketType::kResult);
  h.flags = c.flags & (kFlagZero | kFlagSparse);
  h.chunk = c.chunk;
  h.slot = Be{c.chunk.host() % window};
  h.elements = c.elements;
  h.dtype = c.dtype;
  h.exponent = c.exponent;
  h.total = c.total;
  h.contributors = run ? c.contributors : Be{members_of(kWorld)};
  Bytes out = box_says(h, contribution.subspan(kHeaderBytes));
  resum(out, membership());
  reseal(out);
  return out;
}

Bytes Speaker::result_of_run(std::span<const std::byte> run, std::uint32_t bit) const {
  Bytes one(run.begin(), run.end());
  Header h = header_of(one);
  const auto place =
      static_cast<std::size_t>(std::popcount(h.contributors.host() & ((std::uint64_t{1} << bit) - 1)));
  if (one.size() != kHeaderBytes) h.exponent = static_cast<std::int8_t>(one.at(kHeaderBytes + place));
  one.resize(kHeaderBytes);
  h.type = PacketType::kContribute;
  h.flags = kFlagZero;
  h.chunk = Be{h.chunk.host() + bit * membership().shards};
  std::memcpy(one.data(), &h, sizeof h);
  return result_of(one);
}

Bytes Speaker::reject(RejectReason reason, std::uint32_t chunk, std::uint64_t contributors) const {
  Header h = header(PacketType::kReject);
  h.chunk = Be{chunk};
  h.slot = Be{static_cast<std::uint32_t>(reason)};
  h.contributors = Be{contributors};
  return box_says(h);
}

Bytes Speaker::query(std::uint16_t asker, std::uint32_t chunk) const {
  Header h = header(PacketType::kQuery);
  h.rank = Be{asker};
  h.chunk = Be{chunk};
  h.slot = Be{chunk % window};
  h.contributors = Be{bit_of(kSelf)};
  return box_says(h);
}

Bytes Speaker::resend(std::uint32_t server, std::uint32_t chunk, std::uint64_t ranks) const {
  Header h = header(PacketType::kResend);
  h.rank = Be{raw(server_rank(server))};
  h.chunk = Be{chunk};
  h.slot = Be{chunk % window};
  h.contributors = Be{ranks};
  return box_says(h);
}

Program::Program(const engine::EngineOptions& options)
    : engine_(std::move(*engine::WorkerEngine::create(options, kernels::best_kernels()))) {}

void Program::submit(std::uint32_t kind, std::uint32_t elements, std::uint32_t seed, TimeNs now,
                     TimeNs deadline) {
  const engine::OperationOptions options{.deadline = deadline, .priority = Priority::exactly(9)};
  const auto words = [&](std::uint32_t n, bool floats) {
    auto& block = memory_.emplace_back(n);
    for (std::uint32_t i = 0; i < n; ++i) {
      block[i] = (seed ^ i) * 0x9E3779B9U;
      if (seed % 4 == 1 || (seed % 4 == 2 && i / 16 % 5 != 0)) block[i] = 0;
      if (floats) block[i] = std::bit_cast<std::uint32_t>(static_cast<float>(block[i] >> 8) * 0x1p-10F);
    }
    return block.data();
  };
  const auto floats = [&](std::uint32_t n) {
    return std::span<float>(reinterpret_cast<float*>(words(n, true)), n);
  };
  const auto ints = [&] {
    return std::span<std::int32_t>(reinterpret_cast<std::int32_t*>(words(elements, false)), elements);
  };
  if (kind == 0) {
    (void)engine_->allreduce(floats(elements), now, options);
  } else if (kind == 1) {
    const std::array<std::span<const std::int32_t>, 1> in{ints()};
    const std::array<std::span<std::int32_t>, 1> out{ints()};
    (void)engine_->allreduce(in, out, now, options);
  } else if (kind == 2) {
    const std::array<std::span<float>, 2> both{floats(elements / 3), floats(elements - elements / 3)};
    (void)engine_->allreduce(std::span<const std::span<float>>(both), now, options);
  } else if (kind == 3) {
    (void)engine_->barrier(now, options);
  } else {
    (void)engine_->allreduce(std::span<float>{}, now, options);
  }
}

std::vector<Bytes> Program::transmit(TimeNs now) {
  std::vector<Bytes> all;
  const std::size_t room = engine_->max_datagram_bytes();
  while (true) {
    Bytes out(room);
    std::uint16_t port = 0;
    const std::size_t bytes = engine_->transmit(out, now, port);
    TALLY_CHECK(bytes <= room, "a datagram within max_datagram_bytes");
    if (bytes == 0) break;
    TALLY_CHECK(bytes >= kHeaderBytes && port >= kBasePort && port < kBasePort + kMaxShards, "a datagram");
    out.resize(bytes);
    all.push_back(std::move(out));
    TALLY_CHECK(all.size() < kMostDatagrams, "transmit comes to an end");
  }
  TALLY_CHECK(engine_->deadline() > now, "nothing is due after transmit returned 0");
  return all;
}

}  // namespace tally
