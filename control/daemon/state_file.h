#pragma once
// The file of the jobs that job.add made: its text, and how one text takes the place of another so that a
// loss of power leaves the former or the new one. Owner of a file: whoever writes it, one at a time.

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tl/expected.hpp>
#include <vector>

#include "api/request.h"
#include "tally/error.h"

namespace tally::daemon {

inline constexpr int kStateVersion = 1;
inline constexpr std::size_t kMaxStateBytes = std::size_t{16} << 20U;

struct State {
  std::string instance{};         // of the daemon that wrote it
  std::vector<api::Json> jobs{};  // as they were given
};

[[nodiscard]] std::string state_text(const State& state);
// Any text. Why it is not to be used, as a clause for people ("is torn: ..."): torn, foreign, newer.
[[nodiscard]] tl::expected<State, std::string> read_state(std::string_view text, const std::string& instance);

// The system calls of replace_file(), so that tests can let each of them fail. errno as theirs.
class Files {
 public:
  Files() = default;
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  virtual ~Files() = default;

  virtual int create(const std::string& path);  // for writing, empty, mode 0600
  virtual ssize_t write(int file, std::string_view text);
  virtual int sync(int file);
  virtual int close(int file);
  virtual int rename(const std::string& from, const std::string& to);
  virtual int sync_folder(const std::string& path);
};

// Writes path.new, syncs it, renames it to path, syncs the folder. After a failure path has its former text,
// which is `former` (empty: there was no file). Takes as long as the disk does.
[[nodiscard]] Result<void> replace_file(Files& files, const std::string& path, const std::string& text,
                                        const std::string& former);

// Fails where this process can keep no file: on a folder that is none, or is not its to write in.
[[nodiscard]] Result<void> usable_folder(const std::string& path);

// Gives the file a name that tells what it is (path.unfit, path.unfit-2, ...), which takes no other's place.
[[nodiscard]] Result<std::string> set_aside(const std::string& path);

// Replaces the file on a thread of its own: a disk that takes its time keeps no lease from being renewed.
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
