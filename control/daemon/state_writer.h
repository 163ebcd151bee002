#pragma once
// Writes the state file on a thread of its own: a disk that takes its time keeps no lease from being renewed.

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "daemon/state_file.h"
#include "tally/error.h"

namespace tally::daemon {

class StateWriter {
 public:
  using Done = std::function<void(Result<void>)>;
  // Hands a function over to the thread that calls write(), to be called there. Any thread.
  using Post = std::function<void(std::function<void()>)>;

  // former: the file's text; empty: there is none.
  StateWriter(std::string path, std::string former, Post post,
              std::unique_ptr<Files> files = std::make_unique<Files>());
  StateWriter(const StateWriter&) = delete;
  StateWriter& operator=(const StateWriter&) = delete;
  // Waits for the write that is under way; what was not begun is not written.
  ~StateWriter();

  // `done` is posted when the text is on the disk, or why it is not. One at a time: the next when it was.
  void write(std::string text, Done done);

 private:
  struct Wish {
    std::string text;
    Done done;
  };

  void work();

  const std::string path_;
  const Post post_;
  const std::unique_ptr<Files> files_;
  std::string former_;  // of the thread
  std::mutex mutex_{};
  std::condition_variable woken_{};
  std::optional<Wish> wish_{};  // with the mutex, as over_
  bool over_ = false;
  std::thread thread_{};
};

}  // namespace tally::daemon
