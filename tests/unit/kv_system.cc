#include "kv_system.h"

#include <gtest/gtest.h>

#include <thread>

namespace tally::kv {

System::System(int workers, int servers, const NodeOptions& options) {
  NodeOptions mine = options;
  mine.workers = workers;
  mine.servers = servers;
  mine.role = Role::kSchedules;
  mine.port = 0;
  scheduler_ = std::make_unique<Node>(mine);
  mine.port = scheduler_->port();
  for (int rank = 0; rank < servers; ++rank) {
    mine.role = Role::kServes;
    mine.rank = rank;
    servers_.push_back(std::make_unique<Node>(mine));
  }
  for (int rank = 0; rank < workers; ++rank) {
    mine.role = Role::kWorks;
    mine.rank = rank;
    workers_.push_back(std::make_unique<Node>(mine));
  }
}

System::~System() {
  if (!finished_) finish();
}

void System::serve(const std::function<Handle(int server)>& handle, Merge merge) {
  for (std::size_t rank = 0; rank < servers_.size(); ++rank) {
    apps_.push_back(std::make_unique<KVServer<float>>(*servers_[rank], 0));
    apps_.back()->set_request_handle(handle(static_cast<int>(rank)), merge);
  }
}

void System::on_all(const std::function<void(Node&)>& work) {
  std::vector<std::thread> threads;
  threads.emplace_back([&] { work(*scheduler_); });
  for (auto& node : servers_) {
    if (node) threads.emplace_back([&work, &node] { work(*node); });
  }
  for (auto& node : workers_) {
    if (node) threads.emplace_back([&work, &node] { work(*node); });
  }
  for (std::thread& thread : threads) thread.join();
}

void System::start() {
  on_all([](Node& node) { node.start(); });
}

void System::finish() {
  finished_ = true;
  on_all([](Node& node) { node.finalize(); });
}

void System::kill_worker(int rank) { workers_[static_cast<std::size_t>(rank)].reset(); }

void System::kill_server(int rank) {
  servers_[static_cast<std::size_t>(rank)]->finalize(false);
  apps_[static_cast<std::size_t>(rank)].reset();
  servers_[static_cast<std::size_t>(rank)].reset();
}

void System::run(const std::function<void(int rank, Node& node)>& program) {
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < workers_.size(); ++rank) {
    if (workers_[rank]) threads.emplace_back([&, rank] { program(static_cast<int>(rank), *workers_[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
}

Failure failure_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Failure& failure) {
    return failure;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorCode::kInvalidArgument, ""};
}

std::string text_of(const std::function<void()>& call) { return failure_of(call).what(); }

}  // namespace tally::kv
