#pragma once
// A SwitchML client: one rank, its worker threads and its running operation. Pure. Owner: one thread (the
// original has a thread for each StockThread; they share nothing but the operation).

#include <cstdint>
#include <span>
#include <vector>

#include "stock_thread.h"

namespace tally::stock {

class StockClient {
 public:
  explicit StockClient(const StockOptions& options);

  // The next operation, over all threads: thread t has the t-th part, the last one what is left over. done()
  // before; the tensor lives until done().
  void begin(StockTensor tensor) noexcept;
  [[nodiscard]] bool done() const noexcept;

  // Who gets this frame, by its Ethernet and UDP destinations, as a card's rules tell it; nullptr: nobody
  // here.
  [[nodiscard]] StockThread* thread_for(std::span<const std::byte> frame) noexcept;
  [[nodiscard]] std::span<StockThread> threads() noexcept { return threads_; }
  [[nodiscard]] std::span<const StockThread> threads() const noexcept { return threads_; }
  [[nodiscard]] StockCounters counters() const noexcept;
  [[nodiscard]] const StockOptions& options() const noexcept { return options_; }

 private:
  StockOptions options_;
  std::vector<StockThread> threads_;
  std::uint32_t next_job_ = 0;  // from 0 on, whenever a client starts
};

}  // namespace tally::stock
