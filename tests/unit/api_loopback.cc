#include "api_loopback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <map>

#include "api/transport.h"
#include "jobs.h"
#include "tally/net.h"
#include "tally/wire.h"

namespace tally::api_test {
namespace {

jobs::Binding binding_of(std::uint16_t plug) {
  jobs::Binding b = test_binding(1, plug);
  b.port = PortIndex{plug};
  return b;
}

std::mutex boxes_mutex;
std::map<std::string, LoopbackBox*, std::less<>> boxes;

std::string register_box(LoopbackBox* box) {
  static std::atomic<unsigned> count = 0;
  std::string name = "box" + std::to_string(count++);
  const std::lock_guard lock(boxes_mutex);
  boxes[name] = box;
  return name;
}

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(LoopbackBox* box, bool full) : box_(box), full_(full) {
    inbox_ = box_ == nullptr ? std::make_shared<Inbox>(std::uint16_t{0}) : box_->plug();
  }
  [[nodiscard]] Result<void> attach() override {
    user_ = std::this_thread::get_id();
    return {};
  }
  [[nodiscard]] std::uint16_t most_elements() const noexcept override { return 352; }
  std::size_t receive(const DatagramSink& sink) override {
    EXPECT_EQ(std::this_thread::get_id(), user_);
    const auto datagrams = inbox_->take();
    for (const Bytes& each : datagrams) sink(each);
    return datagrams.size();
  }
  [[nodiscard]] std::span<Outbound> lend(std::size_t wanted, std::size_t bytes) override {
    EXPECT_EQ(std::this_thread::get_id(), user_);
    if (full_) return {};
    buffers_.assign(wanted, Bytes(bytes));
    room_.clear();
    for (Bytes& buffer : buffers_) room_.push_back({buffer, 0, 0});
    return room_;
  }
  void send(std::size_t filled) override {
    for (std::size_t i = 0; i < filled && box_ != nullptr; ++i) {
      buffers_[i].resize(room_[i].bytes);
      box_->receive(inbox_->plug(), std::move(buffers_[i]), room_[i].destination_port);
    }
    room_.clear();
  }
  void joined(const engine::Membership& membership) override {
    EXPECT_EQ(membership.box_mac, test_box().mac);
  }
  void wait(TimeNs now, TimeNs until) override {
    if (until > now) inbox_->wait(until - now);
  }
  void wake() noexcept override { inbox_->wake(); }
  [[nodiscard]] std::string describe() const override { return "loopback in this process"; }
  [[nodiscard]] std::string trouble() const override {
    if (box_ == nullptr) return {};
    ++box_->troubles_asked;
    if (!box_->in_trouble) return {};
    box_->told_behind = box_->datagrams.load();
    ++box_->troubles_told;
    return "3 datagrams that are none";
  }

 private:
  LoopbackBox* const box_;
  const bool full_;
  std::shared_ptr<Inbox> inbox_;
  std::thread::id user_;
  std::vector<Bytes> buffers_;
  std::vector<Outbound> room_;
};

Result<std::unique_ptr<Transport>> make_loopback(const TransportOptions& options) {
  const std::string_view name = options.device.substr(0, options.device.find(','));
  if (name == "nowhere") return std::make_unique<LoopbackTransport>(nullptr, false);
  const std::lock_guard lock(boxes_mutex);
  const auto box = boxes.find(name);
  if (box == boxes.end()) return fail(ErrorCode::kInvalidArgument, "no such box", std::string(name));
  return std::make_unique<LoopbackTransport>(box->second, options.device.ends_with(",full"));
}

}  // namespace

LoopbackBox::LoopbackBox(const BoxOptions& options)
    : options_(options), name_(register_box(this)), rng_(options.seed) {
  register_transport("loopback", &make_loopback);
  (void)schedule_.step(steady_now());
  sim::SwitchOptions box;
  box.cores = options.cores;
  members::NativeConfig job;
  job.name = kJob;
  job.token = options.token;
  job.workers = options.workers;
  job.elements = options.elements;
  job.window = options.window;
  job.lease = options.lease;
  job.stragglers = options.stragglers;
  box.jobs.push_back(job);
  node_ = std::make_unique<sim::SwitchNode>(
      schedule_, options.seed, box,
      [this](const jobs::Binding& to, const Bytes& frame) { deliver(to, frame); },
      [](const std::string& broken) { ADD_FAILURE() << broken; });
  thread_ = std::thread([this] { serve(); });
}

LoopbackBox::~LoopbackBox() {
  // A Worker that was destroyed in its own callback ends a little later.
  EXPECT_TRUE(eventually([this] {
    const std::lock_guard lock(mutex_);
    return std::all_of(plugs_.begin(), plugs_.end(), [](const auto& plug) { return plug.use_count() == 1; });
  })) << "a transport outlives its box";
  {
    const std::lock_guard lock(boxes_mutex);
    boxes.erase(name_);
  }
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  something_.notify_one();
  thread_.join();
}

WorkerOptions LoopbackBox::worker(std::uint16_t rank, const std::string& how) const {
  WorkerOptions options;
  options.job = kJob;
  options.token = options_.token;
  options.box = "10.255.0.1";
  options.transport = "loopback:" + name_ + how;
  options.rank = rank;
  options.world = options_.workers;
  options.join_timeout = kPatience;
  return options;
}

std::shared_ptr<Inbox> LoopbackBox::plug() {
  const std::lock_guard lock(mutex_);
  plugs_.push_back(std::make_shared<Inbox>(static_cast<std::uint16_t>(plugs_.size())));
  return plugs_.back();
}

void LoopbackBox::receive(std::uint16_t plug, Bytes datagram, std::uint16_t destination_port) {
  ++datagrams;
  const jobs::Binding from = binding_of(plug);
  Header header;
  std::memcpy(&header, datagram.data(), sizeof header);
  Bytes frame = wrap(datagram, from, test_box(), destination_port);
  {
    const std::lock_guard lock(mutex_);
    if (silent_) return;
    if (header.type == PacketType::kContribute) priorities_.insert(header.priority);
    arrivals_.push_back({from, std::move(frame)});
  }
  something_.notify_one();
}

void LoopbackBox::silence() {
  const std::lock_guard lock(mutex_);
  silent_ = true;
}

std::set<unsigned> LoopbackBox::priorities() {
  const std::lock_guard lock(mutex_);
  return priorities_;
}

void LoopbackBox::run(const std::function<void(sim::SwitchNode&)>& action) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    actions_.emplace_back([&] {
      action(*node_);
      done.set_value();
    });
  }
  something_.notify_one();
  done.get_future().wait();
}

void LoopbackBox::deliver(const jobs::Binding& to, const Bytes& frame) {
  if (rng_.chance(options_.loss)) return;
  const std::size_t head = sizeof(EthernetHeader) + sizeof(Ipv4Header) + sizeof(UdpHeader);
  std::shared_ptr<Inbox> inbox;
  {
    const std::lock_guard lock(mutex_);
    if (silent_) return;
    inbox = plugs_.at(raw(to.port));
  }
  inbox->put(Bytes(frame.begin() + static_cast<std::ptrdiff_t>(head), frame.end()));
}

void LoopbackBox::serve() {
  constexpr std::chrono::microseconds kTick{500};  // publications and leases have no other alarm
  std::unique_lock lock(mutex_);
  while (!stop_) {
    something_.wait_for(lock, kTick, [this] { return stop_ || !arrivals_.empty() || !actions_.empty(); });
    const auto arrivals = std::exchange(arrivals_, {});
    const auto actions = std::exchange(actions_, {});
    lock.unlock();
    while (schedule_.step(steady_now())) continue;
    for (const auto& action : actions) action();
    for (const Arrival& each : arrivals) {
      if (!rng_.chance(options_.loss)) node_->receive(each.frame, each.from.port, false);
    }
    while (schedule_.step(steady_now())) continue;
    lock.lock();
  }
}

WorkerOptions nowhere() {
  register_transport("loopback", &make_loopback);
  WorkerOptions options;
  options.job = LoopbackBox::kJob;
  options.box = "10.255.0.1";
  options.transport = "loopback:nowhere";
  return options;
}

tally_worker* join_in_c(const WorkerOptions& with) {
  tally_options options = TALLY_OPTIONS_INIT;
  options.job = with.job.c_str();
  options.token = with.token.c_str();
  options.box = with.box.c_str();
  options.transport = with.transport.c_str();
  options.rank = with.rank;
  options.world = with.world;
  tally_worker* worker = nullptr;
  EXPECT_EQ(tally_join(&options, &worker), TALLY_OK) << tally_last_error();
  return worker;
}

std::vector<Worker> join_all(LoopbackBox& box, std::uint16_t world) {
  std::vector<std::optional<Result<Worker>>> joined(world);
  on_all(world, [&](std::size_t rank) {
    joined[rank].emplace(Worker::join(box.worker(static_cast<std::uint16_t>(rank))));
  });
  std::vector<Worker> workers;
  for (auto& each : joined) {
    if (*each) {
      workers.push_back(std::move(**each));
    } else {
      ADD_FAILURE() << each->error().text();
    }
  }
  return workers;
}

void on_all(std::size_t ranks, const std::function<void(std::size_t)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (auto& thread : threads) thread.join();
}

bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace tally::api_test
