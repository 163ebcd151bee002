#pragma once
// What comparisons of many runs in virtual time share: their command line, PROGRAM PREFIX [--quick] [--jobs N], which writes
// PREFIX.md and PREFIX.json; threads; words of tables.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tally::bench {

// What all runs gave.
struct Written {
  std::string markdown;
  std::string json;
  std::size_t runs = 0;
  std::uint64_t wrong = 0;  // values of sums
};

struct Comparison {
  std::string name;  // of the program
  std::string what;
  std::function<Written(bool quick, unsigned threads)> run;
  // Instead of all that, if its flag is given: prints, and returns the exit code.
  std::string flag{};
  std::string flag_says{};
  std::function<int()> instead{};
};

// The exit code: 1 if a value was wrong.
[[nodiscard]] int run(int argc, char** argv, const Comparison& comparison);

// work(i) for each i below `pieces`, begun in order, by a few threads.
template <class Work>
void on_threads(unsigned threads, std::size_t pieces, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto some = [&] {
    for (std::size_t i = next++; i < pieces; i = next++) work(i);
  };
  std::vector<std::thread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(some);
  some();
  for (std::thread& other : others) other.join();
}

// As printf, up to 511 characters.
[[nodiscard, gnu::format(printf, 1, 2)]] std::string words(const char* format, ...);

}  // namespace tally::bench
