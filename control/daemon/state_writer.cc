#include "daemon/state_writer.h"

#include <utility>

namespace tally::daemon {

StateWriter::StateWriter(std::string path, std::string former, Post post, std::unique_ptr<Files> files)
    : path_(std::move(path)), post_(std::move(post)), files_(std::move(files)), former_(std::move(former)) {
  thread_ = std::thread([this] { work(); });
}

StateWriter::~StateWriter() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  woken_.notify_one();
  thread_.join();
}

void StateWriter::write(std::string text, Done done) {
  {
    const std::scoped_lock lock(mutex_);
    wish_ = Wish{std::move(text), std::move(done)};
  }
  woken_.notify_one();
}

void StateWriter::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    woken_.wait(lock, [this] { return over_ || wish_.has_value(); });
    if (over_) return;
    Wish wish = *std::exchange(wish_, std::nullopt);
    lock.unlock();
    Result<void> written = replace_file(*files_, path_, wish.text, former_);
    if (written) former_ = std::move(wish.text);
    post_([done = std::move(wish.done), written = std::move(written)] { done(written); });
    lock.lock();
  }
}

}  // namespace tally::daemon
