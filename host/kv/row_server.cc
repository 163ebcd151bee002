#include "kv/row_server.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "kv/slicing.h"

namespace tally::kv {
namespace {

// Of requests that the shards have not done. Beyond it the server's thread waits, its queue fills, and connections are held.
constexpr std::size_t kMostAtShards = std::size_t{64} << 20;

std::size_t bytes_of(const KVPairs<float>& data) noexcept {
  return data.keys.size() * sizeof(Key) + data.vals.size() * sizeof(float) + data.lens.size() * sizeof(int);
}

std::vector<Range> parts_of(const Range& whole, int parts) {
  std::vector<Range> ranges;
  const std::uint64_t width = whole.size() / static_cast<std::uint64_t>(parts);
  for (int i = 0; i < parts; ++i) {
    const std::uint64_t begin = whole.begin() + width * static_cast<std::uint64_t>(i);
    ranges.emplace_back(begin, i + 1 == parts ? whole.end() : begin + width);
  }
  return ranges;
}

}  // namespace

struct RowServer::Work {
  struct Part {
    std::size_t shard = 0;
    Slice slice{};
    std::vector<float> vals{};
    std::vector<int> lens{};
  };
  KVMeta meta;
  KVPairs<float> data;
  std::vector<Part> parts{};
  std::atomic<std::size_t> left{0};
  std::mutex mutex{};
  std::optional<Failure> failure{};
};

RowServer::RowServer(Node& node, const RowServerOptions& options)
    : options_(options),
      ranges_(parts_of(node.ranges()[static_cast<std::size_t>(node.rank())], options.shards)) {
  for (int i = 0; i < options.shards; ++i) {
    auto& shard = shards_.emplace_back(std::make_unique<Shard>(options.rows));
    shard->inbox = std::make_unique<Inbox>("tally-kv-shard", std::numeric_limits<std::size_t>::max(), [] {});
    shard->inbox->begin();
  }
  server_ = std::make_unique<KVServer<float>>(node, options.app);
  server_->set_request_handle(
      [this](const KVMeta& meta, const KVPairs<float>& data, KVServer<float>*) { take(meta, data); },
      options.merge, [this](std::size_t waiting) { check_room(waiting); });
}

RowServer::~RowServer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    room_.notify_all();
  }
  for (auto& shard : shards_) shard->inbox->stop();
  server_.reset();
}

// What waits for other workers has the rest of what rows may have.
void RowServer::check_room(std::size_t waiting) const {
  const std::size_t most = options_.rows.most_bytes;
  const std::uint64_t rows = statistics().bytes;
  if (most != 0 && rows + waiting > most)
    throw Failure(ErrorCode::kRefused,
                  "this server has no room for a round: rows have " + std::to_string(rows) +
                      " bytes, pushes that wait for other workers' " + std::to_string(waiting) +
                      ", and both at most " + std::to_string(most) + " (tally-kv --memory)");
}

// On the server's thread: the shards' queues keep the order of requests for each key.
void RowServer::take(const KVMeta& meta, const KVPairs<float>& data) {
  {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return ending_ || at_shards_ <= kMostAtShards; });
    at_shards_ += bytes_of(data);
  }
  const std::span<const Key> keys(data.keys.data(), data.keys.size());
  const auto work = std::make_shared<Work>();
  work->meta = meta;
  work->data = data;
  const std::vector<Slice> slices =
      slices_of(keys, std::span<const int>(data.lens.data(), data.lens.size()), data.vals.size(), ranges_);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].keys != 0) work->parts.push_back({i, slices[i]});
  }
  pushes_ += meta.push ? 1 : 0;
  pulls_ += meta.pull ? 1 : 0;
  merged_ += meta.push ? static_cast<std::uint64_t>(meta.num_merge) : 0;
  keys_ += keys.size();
  work->left = work->parts.size();
  for (std::size_t part = 0; part < work->parts.size(); ++part)
    shards_[work->parts[part].shard]->inbox->post([this, work, part] { do_part(*work, part); });
}

void RowServer::do_part(Work& work, std::size_t part) {
  Work::Part& mine = work.parts[part];
  Shard& shard = *shards_[mine.shard];
  const KVPairs<float>& data = work.data;
  const std::span<const Key> keys(data.keys.data() + mine.slice.key, mine.slice.keys);
  try {
    if (work.meta.push) {
      if (const std::size_t most = options_.rows.most_bytes; most != 0) {
        const std::size_t left = most - std::min(most - 1, server_->waiting_bytes());
        shard.rows.set_bound(std::max<std::size_t>(1, left / shards_.size()));
      }
      const auto lens = data.lens.empty()
                            ? std::span<const int>()
                            : std::span<const int>(data.lens.data() + mine.slice.key, keys.size());
      shard.rows.push(keys, lens, data.vals.size() / data.keys.size(), data.vals.data() + mine.slice.val,
                      mine.slice.key);
    }
    if (work.meta.pull) shard.rows.pull(keys, mine.vals, mine.lens);
  } catch (const Failure& failure) {
    const std::lock_guard lock(work.mutex);
    if (!work.failure || failure.index() < work.failure->index()) work.failure = failure;
  }
  shard.size = shard.rows.size();
  shard.bytes = shard.rows.bytes();
  if (--work.left == 0) answer(work);
}

void RowServer::answer(Work& work) {
  {
    const std::lock_guard lock(mutex_);
    at_shards_ -= bytes_of(work.data);
    room_.notify_all();
  }
  if (work.failure) {
    ++refused_;
    return server_->Refuse(work.meta, work.failure->what(), work.failure->index());
  }
  KVPairs<float> reply;
  if (work.meta.pull) {
    std::size_t values = 0;
    for (const Work::Part& part : work.parts) values += part.vals.size();
    reply.keys = work.data.keys;
    reply.lens.reserve(reply.keys.size());
    reply.vals.reserve(values);
    for (Work::Part& part : work.parts) {
      reply.vals.append(SArray<float>(part.vals.data(), part.vals.size()));
      reply.lens.append(SArray<int>(part.lens.data(), part.lens.size()));
    }
    // Lens that are all the same go without saying.
    const int each = reply.lens.front();
    if (each != 0 &&
        std::all_of(reply.lens.begin(), reply.lens.end(), [each](int one) { return one == each; }))
      reply.lens = SArray<int>();
  }
  server_->Response(work.meta, reply);
}

RowServerStatistics RowServer::statistics() const {
  RowServerStatistics counted{pushes_, pulls_, merged_, keys_, refused_};
  for (const auto& shard : shards_) {
    counted.rows += shard->size;
    counted.bytes += shard->bytes;
  }
  return counted;
}

}  // namespace tally::kv
