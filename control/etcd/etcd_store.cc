#include "etcd/etcd_store.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "tally/background_thread.h"

namespace tally::etcd {

using fleet::Fault;
using fleet::StoreError;

EtcdStore::Lane::Lane(EtcdStore& store, const char* name)
    : store_(store), gateway_(store.settings_, store.choice_) {
  thread_ = background_thread(name, store.settings_.avoid, [this] { run(); });
}

EtcdStore::Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  wake_.notify_all();
  for (gateway_.stop(); !finished_.load(std::memory_order_acquire); gateway_.stop())
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  thread_.join();
}

void EtcdStore::Lane::add(Waiting waiting) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(waiting));
  }
  wake_.notify_all();
}

void EtcdStore::Lane::run() {
  for (;;) {
    Waiting one;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return over_ || !queue_.empty(); });
      if (over_) break;
      one = std::move(queue_.front());
      queue_.pop_front();
    }
    store_.tell(fleet::Answer{one.ticket, gateway_.ask(one.request, one.deadline)});
  }
  finished_.store(true, std::memory_order_release);
}

EtcdStore::EtcdStore(Settings settings)
    : settings_(std::move(settings)), choice_(settings_.endpoints.size()) {
  leases_ = std::make_unique<Lane>(*this, "tally-leases");
  others_ = std::make_unique<Lane>(*this, "tally-fleet");
}

Result<std::unique_ptr<EtcdStore>> EtcdStore::start(Settings settings) {
  try {
    return std::unique_ptr<EtcdStore>(new EtcdStore(std::move(settings)));
  } catch (const std::system_error& e) {
    return system_failure("there is no thread for etcd's client", e.code().value(), "fleet");
  }
}

EtcdStore::~EtcdStore() {
  // All at once, not one wait after the other.
  for (Watched& one : watchers_) one.watcher->stop();
  leases_.reset();
  others_.reset();
  watchers_.clear();
  leaving_.clear();
}

void EtcdStore::tell(fleet::News news) {
  const std::lock_guard lock(mutex_);
  news_.push_back(std::move(news));
}

fleet::Ticket EtcdStore::ask(fleet::Request request, TimeNs deadline) {
  const fleet::Ticket ticket = ++numbers_;
  if (std::string why = fleet::objection_to(request); !why.empty()) {
    const Fault fault = why.find("bytes") == std::string::npos ? Fault::kInvalid : Fault::kTooLarge;
    tell(fleet::Answer{ticket, tl::unexpected(StoreError{fault, std::move(why), false})});
    return ticket;
  }
  const bool lease = std::holds_alternative<fleet::Grant>(request) ||
                     std::holds_alternative<fleet::KeepAlive>(request) ||
                     std::holds_alternative<fleet::Revoke>(request);
  (lease ? leases_ : others_)->add({ticket, std::move(request), deadline});
  return ticket;
}

fleet::WatchId EtcdStore::watch(std::string prefix, fleet::Revision from) {
  const fleet::WatchId id = ++numbers_;
  try {
    watchers_.push_back({id, std::make_unique<Watcher>(settings_, choice_, id, std::move(prefix), from,
                                                       [this](fleet::News news) { tell(std::move(news)); })});
  } catch (const std::system_error& e) {
    tell(fleet::WatchOver{id, "there is no thread for a watch: " + e.code().message()});
  }
  return id;
}

void EtcdStore::unwatch(fleet::WatchId watch) {
  const auto at =
      std::find_if(watchers_.begin(), watchers_.end(), [&](const Watched& one) { return one.id == watch; });
  if (at == watchers_.end()) return;
  at->watcher->stop();
  leaving_.push_back(std::move(at->watcher));
  watchers_.erase(at);
}

std::vector<fleet::News> EtcdStore::take() {
  for (const auto& watcher : leaving_)
    if (!watcher->finished()) watcher->stop();
  std::erase_if(leaving_, [](const auto& watcher) { return watcher->finished(); });
  const std::lock_guard lock(mutex_);
  return std::exchange(news_, {});
}

}  // namespace tally::etcd
