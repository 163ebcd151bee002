#include "stock_client.h"

#include <algorithm>

namespace tally::stock {

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
