#include "worker_run.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "box_says.h"
#include "engine/chunk_codec.h"
#include "engine/datagram.h"
#include "harness.h"
#include "tally/ids.h"
#include "tally/mix64.h"
#include "tally/time.h"
#include "tally/wire.h"

namespace tally::bench {
namespace {

constexpr std::uint64_t kLargeBytes = std::uint64_t{256} << 20;
constexpr std::uint64_t kSmallBytes = std::uint64_t{128} << 10;
constexpr TimeNs kTurn = kMicrosecond;  // virtual: no timer runs out
constexpr std::size_t kCacheLine = 64;
constexpr const char* kJob = "bench";
constexpr std::uint64_t kInstance = 1;

// Of every magnitude below 2^23, exact in float32 and in int32, and so are the sums.
template <class T>
T value_of(std::uint64_t i) {
  const auto number = static_cast<std::int32_t>(static_cast<std::uint32_t>(i) * 2654435761U >> 8) - (1 << 23);
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(number) * 0x1p-30F;
  else
    return number;
}

std::uint64_t chunks_in(std::uint64_t bytes, const RunShape& shape) {
  return bytes / (sizeof(float) * shape.elements);
}

double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// A window of datagrams, taken in turn.
template <class T>
class WorkerRun<T>::Frames {
 public:
  explicit Frames(std::uint16_t elements)
      : stride_((kHeaderBytes + sizeof(T) * elements + kCacheLine - 1) / kCacheLine * kCacheLine +
                kCacheLine),
        bytes_(kWorkerWindow * stride_) {}

  [[nodiscard]] std::span<std::byte> room(std::uint64_t number) noexcept {
    return {bytes_.data() + number % kWorkerWindow * stride_, stride_};
  }
  [[nodiscard]] std::size_t& length(std::uint64_t number) noexcept {
    return lengths_[number % kWorkerWindow];
  }
  std::uint64_t sent = 0;
  std::uint64_t received = 0;

 private:
  const std::size_t stride_;
  std::vector<std::byte> bytes_;
  std::array<std::size_t, kWorkerWindow> lengths_{};
};

template <class T>
WorkerRun<T>::WorkerRun(const RunShape& shape, const kernels::Kernels& kernels)
    : shape_(shape),
      kernels_(kernels),
      chunks_(chunks_in(shape.small ? shape.small_round : kLargeBytes, shape)),
      here_(shape.small ? chunks_in(kSmallBytes, shape) : chunks_),
      out_(here_ * shape.elements),
      box_({shape.elements, kWorkerWindow, shape.sparse}, kernels),
      frames_(std::make_unique<Frames>(shape.elements)) {
  for (std::uint64_t i = 0; i < out_.size(); ++i) out_[i] = value(i);
  if (shape.small) in_ = out_;
  for (std::uint64_t done = 0; done < chunks_; done += here_) {
    const std::uint64_t n = std::min(here_, chunks_ - done) * shape.elements;
    outs_.push_back(std::span(out_).first(n));
    ins_.push_back(std::span<const T>(shape.small ? in_ : out_).first(n));
  }
  engine::EngineOptions options;
  options.job = kJob;
  options.world = MirrorBox::kWorld;
  options.elements = shape.elements;
  options.instance = options.seed = kInstance;
  auto made = engine::WorkerEngine::create(options, kernels);
  require(made.has_value(), "the engine refuses its options");
  engine_ = std::move(*made);
  join();
}

template <class T>
WorkerRun<T>::~WorkerRun() = default;

template <class T>
void WorkerRun<T>::join() {
  std::vector<std::byte> join(engine_->max_datagram_bytes());
  std::uint16_t port = 0;
  const std::size_t bytes = engine_->transmit(join, now_, port);
  const auto joined = box_.control(std::span(join).first(bytes));
  require(joined.has_value(), "the engine does not join");
  engine_->receive(*joined, now_);
  require(engine_->state() == engine::EngineState::kRunning, "the engine does not run");
}

template <class T>
void WorkerRun<T>::check(bool negative) const {
  bool right = true;
  for (std::uint64_t i = 0; i < out_.size(); ++i) right &= out_[i] == (negative ? -value(i) : value(i));
  require(right, "a sum is not what was sent");
}

template <class T>
T WorkerRun<T>::value(std::uint64_t i) const noexcept {
  return shape_.zeros ? T{} : value_of<T>(i);
}

template <class T>
std::span<T> WorkerRun<T>::out_of(std::uint64_t chunk) noexcept {
  return std::span(out_).subspan(chunk % here_ * shape_.elements, shape_.elements);
}
template <class T>
std::span<const T> WorkerRun<T>::in_of(std::uint64_t chunk) const noexcept {
  return std::span(in_.empty() ? out_ : in_).subspan(chunk % here_ * shape_.elements, shape_.elements);
}

// send(number) and receive(number) until both have done all; a window is between them.
template <class T>
template <class Send, class Receive>
Spent WorkerRun<T>::in_bursts(Send send, Receive receive) {
  Spent spent{{}, {}, static_cast<double>(sizeof(T) * shape_.elements)};
  std::uint64_t sent = 0;
  for (std::uint64_t received = 0; received < chunks_;) {
    const double begin = seconds();
    std::size_t n = 0;
    for (; n < kWorkerBurst && sent < chunks_ && sent - received < kWorkerWindow; ++n) send(sent++);
    const double middle = seconds();
    spent.sending.add(middle - begin, n);
    if (sent - received < kWorkerWindow && sent < chunks_) continue;
    for (n = 0; n < kWorkerBurst && received < sent; ++n) receive(received++);
    spent.receiving.add(seconds() - middle, n);
  }
  return spent;
}

template <class T>
Spent WorkerRun<T>::engine() {
  if (shape_.small) std::fill(out_.begin(), out_.end(), T{});
  const auto id = engine_->allreduce(std::span<const std::span<const T>>(ins_),
                                     std::span<const std::span<T>>(outs_), now_);
  require(id.has_value(), "the engine refuses an operation");
  Spent spent;
  std::optional<engine::Completion> done;
  while (!(done = engine_->next_completion())) exchange(spent);
  require(done->result.has_value() && done->result->retransmissions == 0, "the operation failed");
  spent.bytes_per_chunk =
      static_cast<double>(chunks_ * shape_.elements * sizeof(T)) / static_cast<double>(done->result->chunks);
  negative_ = shape_.small || !negative_;
  check(negative_);
  return spent;
}

// A turn of the progress thread: a burst out, and when the window is full or nothing is left, a burst in.
template <class T>
void WorkerRun<T>::exchange(Spent& spent) {
  Frames& frames = *frames_;
  now_ += kTurn;
  std::size_t n = 0;
  const double begin = seconds();
  for (; n < kWorkerBurst && frames.sent - frames.received < kWorkerWindow; ++n, ++frames.sent) {
    std::uint16_t port = 0;
    frames.length(frames.sent) = engine_->transmit(frames.room(frames.sent), now_, port);
    if (frames.length(frames.sent) == 0) break;
  }
  spent.sending.add(seconds() - begin, n);
  if (n == kWorkerBurst && frames.sent - frames.received < kWorkerWindow) return;
  const std::uint64_t end = std::min(frames.sent, frames.received + kWorkerBurst);
  std::uint64_t next = frames.received;
  for (; next != end; ++next) {
    const auto datagram = frames.room(next).first(frames.length(next));
    if (const auto answer = box_.control(datagram)) {
      engine_->receive(*answer, now_);
      frames.length(next) = 0;
    } else {
      box_.mirror(datagram);
    }
  }
  const std::uint64_t burst = end - frames.received;
  const double middle = seconds();
  for (; frames.received != end; ++frames.received) {
    const std::size_t bytes = frames.length(frames.received);
    if (bytes != 0) engine_->receive(frames.room(frames.received).first(bytes), now_);
  }
  spent.receiving.add(seconds() - middle, burst);
}

template <class T>
Spent WorkerRun<T>::kernels() {
  const std::uint32_t n = shape_.elements;
  const int shift = engine::sum_shift(MirrorBox::kWorld);
  constexpr int kExponent = -7;  // of the largest value
  std::uint32_t bits = 0;
  kernels::Sums both;
  const Spent spent = in_bursts(
      [&](std::uint64_t chunk) {
        std::byte* const wire = frames_->room(chunk).data() + kHeaderBytes;
        kernels::Packed packed;
        if constexpr (std::is_same_v<T, float>) {
          const T* const later = in_of(std::min(chunk + kWorkerWindow, chunks_ - 1)).data();
          bits = std::max(bits, kernels_.max_abs_bits(later, n));
          packed = kernels_.quantise(in_of(chunk).data(), wire, n, engine::quantise_scale(shift, kExponent),
                                     std::int32_t{1} << shift);
        } else {
          packed = kernels_.pack(in_of(chunk).data(), wire, n);
        }
        both = {both.sum1 + packed.sums.sum1, both.sum2 + packed.sums.sum2};
      },
      [&](std::uint64_t chunk) {
        const std::byte* const wire = frames_->room(chunk).data() + kHeaderBytes;
        const kernels::Sums sums = kernels_.sums(wire, n);
        both = {both.sum1 - sums.sum1, both.sum2 - sums.sum2};
        if constexpr (std::is_same_v<T, float>)
          kernels_.dequantise(wire, out_of(chunk).data(), n, engine::dequantise_scale(shift, kExponent));
        else
          kernels_.unpack(wire, out_of(chunk).data(), n);
      });
  require(both == kernels::Sums{} && (!std::is_same_v<T, float> || engine::block_exponent(bits) == kExponent),
          "the kernels' sums differ");
  if (shape_.small) negative_ = false;
  check(negative_);
  return spent;
}

template <class T>
Spent WorkerRun<T>::copies() {
  const Spent spent = in_bursts(
      [&](std::uint64_t chunk) {
        const auto values = std::as_bytes(in_of(chunk));
        std::copy(values.begin(), values.end(), frames_->room(chunk).begin() + kHeaderBytes);
      },
      [&](std::uint64_t chunk) {
        const auto values = std::as_writable_bytes(out_of(chunk));
        const auto wire = frames_->room(chunk).subspan(kHeaderBytes, values.size());
        std::copy(wire.begin(), wire.end(), values.begin());
      });
  if (shape_.small) negative_ = false;
  check(negative_);
  return spent;
}

template class WorkerRun<float>;
template class WorkerRun<std::int32_t>;

namespace {

constexpr Generation kGeneration{0x0123456789abcdef};

auth::Key job_key() { return auth::job_key(kJob, {}); }

engine::Membership epoch_of(const MirrorBox::Shape& shape) {
  engine::Membership epoch;
  epoch.job = JobId{1};
  epoch.epoch = Epoch{0x5eed0001};
  epoch.cookie = Cookie{0xa0a0a0a0a0a0a0a0};
  epoch.result_cookie = Cookie{0x2222222222222222};
  epoch.generation = kGeneration;
  epoch.window = epoch.largest_window = epoch.lookahead = shape.window;
  epoch.elements = shape.elements;
  epoch.world = MirrorBox::kWorld;
  epoch.max_priority = 0;
  epoch.sparse = shape.sparse;
  epoch.lease = 10 * kSecond;
  epoch.session = auth::session_key(job_key(), epoch.generation, epoch.epoch, epoch.result_cookie,
                                    epoch.cookie, kInstance, Rank{0});
  return epoch;
}

// What the key adds to the sums of a contribution, or of a run of zeros (one shard).
kernels::Sums keyed_sums(const Header& of, std::uint32_t key) {
  if (of.type != PacketType::kZeroRun) return {keyed(key, of.chunk_id()), 0};
  kernels::Sums sums;
  for (std::uint64_t rest = of.contributors.host(); rest != 0; rest &= rest - 1) {
    const auto i = static_cast<std::uint32_t>(std::countr_zero(rest));
    const std::uint32_t value = keyed(key, Chunk{of.chunk.host() + i});
    sums.sum1 += value;
    sums.sum2 += (i + 1) * value;
  }
  return sums;
}

}  // namespace

MirrorBox::MirrorBox(const Shape& shape, const kernels::Kernels& kernels)
    : epoch_(epoch_of(shape)),
      kernels_(kernels),
      own_key_(rank_key(kGeneration, Rank{0})),
      entry_(shape.elements) {
  for (std::uint16_t rank = 0; rank < kWorld; ++rank) all_keys_ += rank_key(kGeneration, Rank{rank});
}

std::optional<std::vector<std::byte>> MirrorBox::control(std::span<const std::byte> datagram) const {
  Header header;
  std::memcpy(&header, datagram.data(), sizeof header);
  if (header.type == PacketType::kJoin) {
    JoinPayload asked;
    std::memcpy(&asked, datagram.data() + kHeaderBytes, sizeof asked);
    return box_joined(epoch_, JoinStatus::kRunning, asked.nonce.host(), job_key());
  }
  if (header.type != PacketType::kHeartbeat) return std::nullopt;
  Header echo = box_header(epoch_, PacketType::kHeartbeat);
  echo.contributors = Be<std::uint64_t>{members_of(kWorld)};
  return box_tells(epoch_, echo);
}

void MirrorBox::mirror(std::span<std::byte> datagram) noexcept {
  Header in;
  std::memcpy(&in, datagram.data(), sizeof in);
  std::byte* const values = datagram.data() + kHeaderBytes;
  const bool run = in.type == PacketType::kZeroRun;
  const std::uint32_t n = run || (in.flags & kFlagZero) != 0 ? 0 : in.elements.host();
  require(
      (run || in.type == PacketType::kContribute) && (in.flags & kFlagSparse) == 0 && n <= epoch_.elements,
      "that is not a contribution");
  const kernels::Sums zeros = keyed_sums(in, own_key_);
  const kernels::Sums sent = kernels_.sums(values, n);
  require(in.sum1.host() - zeros.sum1 == sent.sum1 && in.sum2.host() - zeros.sum2 == sent.sum2,
          "a contribution's sums");
  kernels_.write(entry_.data(), values, n);  // x - x - x
  kernels_.subtract(entry_.data(), values, n);
  kernels_.subtract(entry_.data(), values, n);
  kernels_.read(entry_.data(), values, n);
  Header out = box_header(epoch_, run ? PacketType::kZeroRun : PacketType::kResult);
  out.flags = in.flags & kFlagZero;
  out.chunk = in.chunk;
  out.slot = Be{~0U};  // all before it are finished
  out.elements = in.elements;
  out.dtype = in.dtype;
  out.exponent = in.exponent;
  out.total = in.total;
  out.contributors = run ? in.contributors : Be{members_of(kWorld)};
  const kernels::Sums all = keyed_sums(in, all_keys_);
  out.sum1 = Be<std::uint32_t>{all.sum1 - sent.sum1};
  out.sum2 = Be<std::uint32_t>{all.sum2 - sent.sum2};
  engine::seal(out, std::size_t{4} * n, datagram, kernels_);
}

}  // namespace tally::bench
