#include "stock_thread.h"

#include <algorithm>

#include "tally/check.h"
#include "tally/mix64.h"

namespace tally::stock {
namespace {

// What a request says where it means nothing: some number of the rank's. The switch keeps the maximum all the
// same.
std::int8_t meaningless_exponent(std::uint32_t rank) noexcept {
  return static_cast<std::int8_t>(static_cast<int>(rank * 7 % 100) - 50);
}

}  // namespace

StockCounters& StockCounters::operator+=(const StockCounters& o) noexcept {
  sent += o.sent;
  resent += o.resent;
  stale += o.stale;
  answered += o.answered;
  duplicates += o.duplicates;
  taken_twice += o.taken_twice;
  others += o.others;
  malformed += o.malformed;
  return *this;
}

StockThread::StockThread(const StockOptions& options, std::uint16_t number)
    : options_(options), number_(number), timers_(options.window), timeout_(options.timeout) {
  TALLY_CHECK(valid_payload(options.payload), "a payload has 128, 256, 512 or 1024 bytes");
  TALLY_CHECK(options.window > 0 && 2U * options.window * options.threads <= kSlotMask + 1U,
              "slots have 14 bits");
}

void StockThread::begin(StockTensor slice, std::uint32_t job) noexcept {
  TALLY_DCHECK(done(), "an operation begins when the one before has ended");
  shift_ = (shift_ + slice_.packets()) % (2U * options_.window);
  job_ = job;
  const std::uint64_t garbage = mix64((std::uint64_t{job} << 32) + options_.rank * 1024U + number_);
  slice_ =
      StockSlice(slice, options_.payload / sizeof(std::int32_t), options_.window, options_.ranks, garbage);
  seen_.assign(slice_.packets(), false);
  first_sent_ = received_ = 0;
  timeout_ = options_.timeout;
}

std::uint16_t StockThread::pool_index_of(std::uint32_t packet) const noexcept {
  const std::uint32_t window = options_.window;
  const std::uint32_t place = (packet + shift_) % (2 * window);
  const std::uint32_t slot = 2 * window * number_ + place % window;
  return static_cast<std::uint16_t>(slot | (place < window ? 0U : kSetBit));
}

// Also for a timer of an earlier operation: then job and place are that one's, and the values whatever is
// there now.
void StockThread::build(std::span<std::byte> frame, StockHeader header) const noexcept {
  FrameHeads h = fresh_heads(options_.addresses, number_, options_.payload);
  slice_.load(tsi_of(header), frame.subspan(kHeads, options_.payload), header.e0);
  header.type_size = h.switchml.type_size;
  h.switchml = header;
  set_heads(frame, h);
}

StockThread::Timer& StockThread::timer_of(std::uint32_t packet) noexcept {
  return timers_[packet % (options_.timers == TimerHabit::kOwn ? slice_.batch() : options_.window)];
}

void StockThread::arm(std::uint32_t packet, TimeNs due, const StockHeader& sent) noexcept {
  timer_of(packet) = {due, sent};
  next_look_ = std::min(next_look_, due);
}

bool StockThread::first(std::span<std::byte> frame, TimeNs now) noexcept {
  if (first_sent_ == slice_.batch()) return false;
  StockHeader header{.job = static_cast<std::uint8_t>(job_)};
  set_tsi(header, first_sent_);
  header.pool_index = Be{pool_index_of(first_sent_)};
  header.e0 = header.e1 = meaningless_exponent(options_.rank);
  build(frame, header);
  const std::uint32_t armed = first_sent_ + (options_.timers == TimerHabit::kObserved ? 1 : 0);
  set_tsi(header, armed);
  arm(armed, now + timeout_ * options_.window, header);
  ++first_sent_;
  ++counters_.sent;
  return true;
}

bool StockThread::passed_over(const StockHeader& h) noexcept {
  const std::uint32_t packet = tsi_of(h);
  if (done() || h.job != static_cast<std::uint8_t>(job_)) {
    ++counters_.others;
    return true;
  }
  if (packet >= slice_.packets()) {
    ++counters_.malformed;
    return true;
  }
  if (!answered(packet)) return false;
  ++counters_.duplicates;
  if (options_.guard == DuplicateGuard::kEvery || packet % 64 == 0) return true;
  ++counters_.taken_twice;
  return false;
}

bool StockThread::receive(std::span<std::byte> frame, TimeNs now) noexcept {
  if (frame.size() < frame_bytes()) {
    ++counters_.malformed;
    return false;
  }
  FrameHeads h = heads_of(frame);
  if (passed_over(h.switchml)) return false;
  const std::uint32_t packet = tsi_of(h.switchml);
  const std::span<std::byte> payload = frame.subspan(kHeads, options_.payload);
  slice_.store(packet, payload, h.switchml.e0);
  seen_[packet] = true;
  ++received_;
  ++counters_.answered;
  // The successor's timer, which in the original is this packet's only where a batch is a whole window: with
  // fewer packets those of answered packets run on, into the next operations.
  const std::uint32_t next = packet + slice_.batch();
  timer_of(next).due = kNever;
  if (next >= slice_.packets()) return false;
  turn_round(h, options_.addresses, number_);
  set_tsi(h.switchml, next);
  h.switchml.pool_index = Be{pool_index_of(next)};
  slice_.load(next, payload, h.switchml.e0);
  arm(next, now + timeout_, h.switchml);
  set_heads(frame, h);
  ++counters_.sent;
  return true;
}

bool StockThread::resend(std::span<std::byte> frame, TimeNs now) noexcept {
  if (done() || now < next_look_) return false;
  TimeNs earliest = kNever;
  for (Timer& timer : timers_) {
    if (timer.due <= now) {
      build(frame, timer.sent);
      ++counters_.resent;
      const std::uint32_t packet = tsi_of(timer.sent);
      const bool current = timer.sent.job == static_cast<std::uint8_t>(job_) && packet < slice_.packets();
      if (!current || answered(packet)) ++counters_.stale;
      if (++timeouts_ == options_.timeouts_to_double) {
        timeouts_ = 0;
        timeout_ *= 2;
      }
      timer.due = now + timeout_;
      return true;
    }
    earliest = std::min(earliest, timer.due);
  }
  next_look_ = earliest;
  return false;
}

std::uint32_t StockThread::first_unanswered() const noexcept {
  return static_cast<std::uint32_t>(std::find(seen_.begin(), seen_.end(), false) - seen_.begin());
}

StockClient::StockClient(const StockOptions& options) : options_(options) {
  for (std::uint16_t t = 0; t < options.threads; ++t) threads_.emplace_back(options, t);
}

void StockClient::begin(StockTensor tensor) noexcept {
  const std::size_t share = tensor.size() / threads_.size();
  for (std::size_t t = 0; t < threads_.size(); ++t) {
    const bool last = t + 1 == threads_.size();
    threads_[t].begin(tensor.part(t * share, last ? tensor.size() - t * share : share), next_job_);
  }
  ++next_job_;
}

bool StockClient::done() const noexcept {
  return std::ranges::all_of(threads_, [](const StockThread& t) { return t.done(); });
}

StockThread* StockClient::thread_for(std::span<const std::byte> frame) noexcept {
  if (frame.size() < kHeads) return nullptr;
  const FrameHeads h = heads_of(frame);
  const unsigned number = h.udp.destination.host() - unsigned{kWorkerPort};
  const bool ours = h.ethernet.destination == options_.addresses.mac &&
                    h.ethernet.type.host() == kEtherIpv4 && h.ip.protocol == kProtocolUdp &&
                    number < threads_.size();
  return ours ? &threads_[number] : nullptr;
}

StockCounters StockClient::counters() const noexcept {
  StockCounters sum;
  for (const StockThread& t : threads_) sum += t.counters();
  return sum;
}

}  // namespace tally::stock
