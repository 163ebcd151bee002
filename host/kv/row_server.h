#pragma once
// The handler of tally-kv: rows in shards, a thread for each, which answer a request together.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "kv/inbox.h"
#include "kv/rows.h"
#include "tally/kv.h"

namespace tally::kv {

struct RowServerOptions {
  RowsOptions rows{};  // most_bytes: of all shards together, and of pushes that wait for other workers'
  int shards = 1;      // 1..64
  Merge merge = Merge::kOff;
  int app = 0;
};

struct RowServerStatistics {
  std::uint64_t pushes = 0, pulls = 0;  // requests; a PushPull is both. Of merged ones one
  std::uint64_t merged = 0;             // pushes of workers in them
  std::uint64_t keys = 0;
  std::uint64_t refused = 0;
  std::uint64_t rows = 0;
  std::uint64_t bytes = 0;  // of rows and their table
};

class RowServer {
 public:
  // The node has started. Requests are answered from now on until the destruction.
  RowServer(Node& node, const RowServerOptions& options);
  ~RowServer();
  RowServer(const RowServer&) = delete;
  RowServer& operator=(const RowServer&) = delete;

  // Any thread.
  [[nodiscard]] RowServerStatistics statistics() const;
  [[nodiscard]] std::size_t waiting_bytes() const noexcept { return server_->waiting_bytes(); }

 private:
  struct Shard {
    explicit Shard(const RowsOptions& options) : rows(options) {}
    Rows rows;
    std::atomic<std::uint64_t> size{0}, bytes{0};
    std::unique_ptr<Inbox> inbox{};
  };
  struct Work;  // one request, until all of its shards are through

  void check_room(std::size_t waiting) const;
  void take(const KVMeta& meta, const KVPairs<float>& data);
  void do_part(Work& work, std::size_t part);
  void answer(Work& work);

  const RowServerOptions options_;
  std::vector<Range> ranges_{};  // of the shards
  std::vector<std::unique_ptr<Shard>> shards_{};
  std::atomic<std::uint64_t> pushes_{0}, pulls_{0}, merged_{0}, keys_{0}, refused_{0};
  std::mutex mutex_{};
  std::condition_variable room_{};
  std::size_t at_shards_ = 0;  // bytes of requests
  bool ending_ = false;
  std::unique_ptr<KVServer<float>> server_;
};

}  // namespace tally::kv
