// One rank of sums of which most blocks are zeros, over libtally: who it is comes from TALLY_* (tally/worker.h). Every
// rank has values in blocks of its own, drawn alike by all, so that each knows what must come out and what must travel.
//
//   tally_sparse_rank --type int32|float --bytes N --rounds N --cases ZEROS:BLOCK,... [--json FILE]
//
// ZEROS: percent of the blocks of a rank; BLOCK: values in one. The cases are taken in turn in each round, between two
// barriers. FILE: the seconds of each, and the bytes that each cannot do without on a cable, per frame as a token bucket
// counts them: [up, down].

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "blocks.h"
#include "command_line.h"
#include "harness.h"
#include "tally/worker.h"

namespace tally::bench {
namespace {

constexpr std::uint32_t kHeaders = 14 + 28 + 56;  // Ethernet, IPv4 and UDP, ours

struct Words {
  std::string type = "int32";
  std::size_t bytes = 4 << 20;
  int rounds = 5;
  std::vector<std::string> cases{"0:256", "50:256", "90:256", "99:256"};
  std::string json;
};

template <class T>
T told(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "tally_sparse_rank: %s\n", result.error().text().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

template <class T>
void run(const Words& words, const std::vector<Blocks>& cases, std::uint32_t rank, std::uint32_t world) {
  Worker worker = told(Worker::join(told(WorkerOptions::from_environment())));
  const std::size_t n = words.bytes / sizeof(T);
  std::vector<T> values(n);
  std::vector<T> right(n);
  nlohmann::json rows = nlohmann::json::array();
  for (const Blocks& c : cases) {
    const std::uint64_t own = std::uint64_t{1} << rank;
    const std::uint64_t all = (std::uint64_t{1} << world) - 1;
    const Sum sum{.values = n, .headers = kHeaders, .exponents = std::is_same_v<T, float>};
    rows.push_back({{"zeros", c.zeros},
                    {"block", c.block},
                    {"least", {least_bytes(c, sum, own), least_bytes(c, sum, all)}},
                    {"seconds", nlohmann::json::array()}});
  }
  for (int round = -1; round < words.rounds; ++round) {
    for (std::size_t k = 0; k < cases.size(); ++k) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t block = i / cases[k].block;
        const T value = static_cast<T>(1 + i % 7);
        int ranks = 0;
        for (std::uint32_t r = 0; r < world; ++r) ranks += has_values(cases[k], block, r) ? 1 : 0;
        values[i] = has_values(cases[k], block, rank) ? value : T{0};
        right[i] = static_cast<T>(ranks) * value;
      }
      told(worker.barrier());
      const auto begun = std::chrono::steady_clock::now();
      const auto done = told(worker.allreduce_async(std::span(values)).wait());
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;
      told(worker.barrier());
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < n; ++i) wrong += values[i] != right[i] ? 1 : 0;
      if (wrong != 0) {
        std::fprintf(stderr, "tally_sparse_rank: %zu sums are wrong\n", wrong);
        std::exit(1);
      }
      if (round < 0) continue;
      rows[k]["seconds"].push_back(took.count());
      rows[k]["again"].push_back(done.retransmissions);
    }
  }
  write_json(words.json, rows);
}

std::uint32_t number(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : static_cast<std::uint32_t>(std::atoi(text));
}

}  // namespace
}  // namespace tally::bench

int main(int argc, char** argv) {
  using namespace tally::bench;
  Words words;
  CommandLine line("one rank of sums of which most blocks are zeros");
  line.option("--type", words.type).one_of({"int32", "float"});
  line.option("--bytes", words.bytes, "of the array");
  line.option("--rounds", words.rounds);
  line.option("--cases", words.cases, "percent of zero blocks : values in a block");
  line.option("--json", words.json);
  line.parse(argc, argv);
  std::vector<Blocks> cases;
  for (const std::string& text : words.cases) {
    const auto colon = text.find(':');
    cases.push_back({static_cast<std::uint32_t>(std::stoul(text.substr(0, colon))),
                     static_cast<std::uint32_t>(std::stoul(text.substr(colon + 1)))});
  }
  const std::uint32_t rank = number("TALLY_RANK");
  const std::uint32_t world = number("TALLY_WORLD");
  if (words.type == "float")
    run<float>(words, cases, rank, world);
  else
    run<std::int32_t>(words, cases, rank, world);
  return 0;
}
