#pragma once
// The store of a fleet at etcd. Requests about leases and all others have a connection and a thread each, so that a
// lease is kept alive whatever else is being sent, and each watch has one. A request that waits behind another one of
// its kind may get its answer as late as that one's deadline.

#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "etcd/gateway.h"
#include "etcd/settings.h"
#include "etcd/watcher.h"
#include "fleet/store.h"
#include "tally/error.h"

namespace tally::etcd {

class EtcdStore : public fleet::Store {
 public:
  // Connects when it is asked something. Fails where there is no thread.
  [[nodiscard]] static Result<std::unique_ptr<EtcdStore>> start(Settings settings);
  // What is under way ends; a connection that is being made is waited for, at most two seconds.
  ~EtcdStore() override;

  fleet::Ticket ask(fleet::Request request, TimeNs deadline) override;
  fleet::WatchId watch(std::string prefix, fleet::Revision from) override;
  void unwatch(fleet::WatchId watch) override;
  std::vector<fleet::News> take() override;

 private:
  struct Waiting {
    fleet::Ticket ticket = 0;
    fleet::Request request{};
    TimeNs deadline = 0;
  };
  // A thread that asks one thing after the other.
  class Lane {
   public:
    Lane(EtcdStore& store, const char* name);
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;
    ~Lane();
    void add(Waiting waiting);

   private:
    void run();

    EtcdStore& store_;
    Gateway gateway_;
    std::mutex mutex_{};
    std::condition_variable wake_{};
    std::deque<Waiting> queue_{};
    bool over_ = false;
    std::atomic<bool> finished_{false};
    std::thread thread_{};
  };
  struct Watched {
    fleet::WatchId id = 0;
    std::unique_ptr<Watcher> watcher{};
  };

  explicit EtcdStore(Settings settings);
  void tell(fleet::News news);

  Settings settings_;
  Choice choice_;
  std::uint64_t numbers_ = 0;
  std::mutex mutex_{};  // of news_
  std::vector<fleet::News> news_{};
  std::list<Watched> watchers_{};
  std::list<std::unique_ptr<Watcher>> leaving_{};  // stopped, their threads not yet over
  std::unique_ptr<Lane> leases_{};
  std::unique_ptr<Lane> others_{};
};

}  // namespace tally::etcd
