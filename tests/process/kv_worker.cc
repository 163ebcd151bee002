// A worker of a key-value system as its owner would write it: for PS-lite, with `ps/ps.h` and the environment and nothing
// else of ours; or with a table.
//
//   app     pushes 10,000 keys 50 times and pulls them: 50 times the values
//   hold    pushes, says so, waits for a line, pushes again and says what became of it
//   dense   PushPulls: every worker gets the sum of all; then with keys that differ, which all are told
//   table   rounds of a table, of keys of which few come often: rows are as a map has them; says how many pairs were hot
//   late    likewise of an asynchronous table, whose workers push when they like: rows are right in the end; and while it has
//           hot keys nothing else goes through the box
//   rate    N: pushes and pulls N keys for a while and says how many a second
//
// Says 'good', or what is wrong, with exit code 1.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "ps/ps.h"
#include "tally/kv_table.h"

namespace {

void expect(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what);
}

std::vector<ps::Key> keys_of(std::size_t count, int rank) {
  std::vector<ps::Key> keys(count);
  for (std::size_t i = 0; i < count; ++i) keys[i] = ps::kMaxKey / count * i + static_cast<ps::Key>(rank);
  return keys;
}

void app() {
  constexpr int kRepeat = 50;
  ps::KVWorker<float> kv(0, 0);
  const auto keys = keys_of(10'000, ps::MyRank());
  std::vector<float> vals(keys.size());
  std::srand(static_cast<unsigned>(ps::MyRank() + 7));
  for (float& val : vals) val = static_cast<float>(std::rand() % 1000);
  std::vector<int> timestamps;
  for (int i = 0; i < kRepeat; ++i) timestamps.push_back(kv.Push(keys, vals));
  for (const int timestamp : timestamps) kv.Wait(timestamp);
  std::vector<float> got;
  kv.Wait(kv.Pull(keys, &got));
  float error = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) error += std::fabs(got[i] - vals[i] * kRepeat);
  expect(error == 0, "error " + std::to_string(error));
  ps::Postoffice::Get()->Barrier(0, ps::kWorkerGroup);
}

void hold() {
  ps::KVWorker<float> kv(0, 0);
  const std::vector<ps::Key> keys{1, ps::kMaxKey};
  kv.Wait(kv.Push(keys, {1, 1}));
  std::cout << "pushed" << std::endl;
  std::string line;
  std::getline(std::cin, line);
  try {
    kv.Wait(kv.Push(keys, {1, 1}));
    std::cout << "pushed again" << std::endl;
  } catch (const std::exception& error) {
    std::cout << "failed: " << error.what() << std::endl;
  }
  std::vector<float> got;
  kv.Wait(kv.Pull({1}, &got));
  expect(got[0] >= 2, "the first push is lost");
}

void dense() {
  ps::KVWorker<float> kv(0, 0);
  const int workers = ps::NumWorkers();
  std::vector<std::vector<float>> outs(8);
  std::vector<int> timestamps;
  for (int round = 0; round < 3; ++round) {
    timestamps.clear();
    for (std::size_t tensor = 0; tensor < outs.size(); ++tensor) {
      const std::vector<float> mine(1000 * (tensor + 1), static_cast<float>(ps::MyRank() + round));
      outs[tensor].clear();
      timestamps.push_back(kv.PushPull({tensor}, mine, &outs[tensor]));
    }
    const float sum = static_cast<float>(workers * (workers - 1) / 2 + workers * round);
    for (std::size_t tensor = 0; tensor < outs.size(); ++tensor) {
      kv.Wait(timestamps[tensor]);
      expect(outs[tensor] == std::vector<float>(1000 * (tensor + 1), sum),
             "round " + std::to_string(round) + ", tensor " + std::to_string(tensor) + " is no sum");
    }
  }
  // As many values, other keys.
  std::vector<float> two;
  try {
    kv.Wait(kv.PushPull({static_cast<ps::Key>(100 + ps::MyRank())}, {1, 2}, &two));
    expect(false, "keys that differ were summed");
  } catch (const tally::kv::Failure& failure) {
    expect(std::string(failure.what()).find("not the same at all workers") != std::string::npos,
           failure.what());
  }
  two.clear();
  kv.Wait(kv.PushPull({100}, {1, 2}, &two));
  expect(two == std::vector<float>{static_cast<float>(workers), static_cast<float>(2 * workers)},
         "no sum after a refusal");
}

void expect_box_is_taken() {
  ps::KVWorker<float> kv(0, 0);
  std::vector<float> two;
  try {
    kv.Wait(kv.PushPull({100}, {1, 2}, &two));
    expect(false, "a PushPull went through the box beside an asynchronous table");
  } catch (const tally::kv::Failure& failure) {
    expect(std::string(failure.what()).find("has the box to itself") != std::string::npos, failure.what());
  }
  tally::kv::Table other({.most_hot = 64, .every = 16, .number = 1});
  for (int round = 0; round < 10; ++round) other.push(std::vector<ps::Key>{7}, std::vector<float>{1});
  expect(other.statistics().hot_keys == 0, "another table has hot keys beside an asynchronous one");
  other.close();
}

void table(std::chrono::milliseconds age) {
  constexpr std::size_t kWidth = 4;
  constexpr std::uint64_t kRounds = 60;
  const bool is_late = age.count() != 0;
  tally::kv::Table table({.width = kWidth,
                          .rule = tally::kv::Rule::kSgd,
                          .rate = 0.5F,
                          .most_hot = 64,
                          .every = 16,
                          .age = age,
                          .least = is_late ? 1 : 0});
  std::map<ps::Key, std::vector<float>> model;
  std::vector<std::mt19937_64> draws;
  for (int worker = 0; worker < ps::NumWorkers(); ++worker) draws.emplace_back(worker + 1);
  const auto check = [&](const char* when) {
    std::vector<ps::Key> keys;
    std::vector<float> expected;
    for (const auto& [key, row] : model) {
      keys.push_back(key);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    std::vector<float> rows(expected.size());
    table.pull(keys, rows);
    expect(rows == expected, std::string("rows are wrong ") + when);
  };
  for (std::uint64_t round = 0; round < kRounds; ++round) {
    for (int worker = 0; worker < ps::NumWorkers(); ++worker) {
      // Zipf's law with exponent 1, over 2^16 keys; whole numbers, so that sums are exact in any order.
      auto& draw = draws[static_cast<std::size_t>(worker)];
      std::map<ps::Key, std::vector<float>> batch;
      for (int lookup = 0; lookup < 400; ++lookup) {
        const auto number = std::exp2(16.0 * static_cast<double>(draw() >> 11) / 9007199254740992.0);
        const ps::Key key = ps::kMaxKey / 65'536 * static_cast<ps::Key>(number - 1);
        batch[key].assign(kWidth, static_cast<float>(draw() % 9) - 4);
      }
      std::vector<ps::Key> keys;
      std::vector<float> gradients;
      for (const auto& [key, gradient] : batch) {
        keys.push_back(key);
        gradients.insert(gradients.end(), gradient.begin(), gradient.end());
        auto& row = model[key];
        row.resize(kWidth);
        for (std::size_t i = 0; i < kWidth; ++i) row[i] -= 0.5F * gradient[i];
      }
      if (worker != ps::MyRank()) continue;
      if (is_late && worker != 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      table.push(keys, gradients);
    }
    if (round % 10 == 9 && !is_late) check("in the rounds");
  }
  if (is_late) {
    expect_box_is_taken();
    tally::kv::Barrier(0, tally::kv::kWorkerGroup);
    check("when all have pushed");
    tally::kv::Barrier(0, tally::kv::kWorkerGroup);
  }
  const auto counted = table.statistics();
  std::cout << "hot pairs " << counted.hot_pairs << " of " << counted.hot_pairs + counted.cold_pairs
            << ", keys " << counted.hot_keys << ", sums " << tally::kv::Node::process().statistics().sums
            << std::endl;
  table.close();
  if (is_late) dense();
}

void rate(std::size_t count, int depth) {
  ps::KVWorker<float> kv(0, 0);
  const auto keys = keys_of(count, ps::MyRank());
  const ps::SArray<ps::Key> shared(keys);
  const ps::SArray<float> vals(count, 1.F);
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [begin] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  std::vector<int> timestamps;
  while (seconds() < 3) {
    timestamps.push_back(kv.ZPush(shared, vals));
    if (timestamps.size() > static_cast<std::size_t>(depth))
      kv.Wait(timestamps[timestamps.size() - 1 - static_cast<std::size_t>(depth)]);
  }
  for (const int timestamp : timestamps) kv.Wait(timestamp);
  std::printf("%.0f pairs a second, %.0f requests a second\n",
              static_cast<double>(count * timestamps.size()) / seconds(),
              static_cast<double>(timestamps.size()) / seconds());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::string what = argc > 1 ? argv[1] : "app";
    ps::Start(0);
    if (what == "app") app();
    if (what == "hold") hold();
    if (what == "dense") dense();
    if (what == "table") table(std::chrono::milliseconds(0));
    if (what == "late") table(std::chrono::milliseconds(20));
    if (what == "rate") rate(std::strtoull(argv[2], nullptr, 10), std::atoi(argv[3]));
    ps::Finalize(0);
    std::cout << "good" << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
