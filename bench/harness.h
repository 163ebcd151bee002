#pragma once
// Measures several things in one run, in turn (A B C A B C), and reports medians: the machine's speed swings
// between minutes, so only figures taken side by side may be compared.

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tally::bench {

struct Contender {
  std::string name;
  // Does one round of work and returns {seconds of the timed part, operations done in it}. Ends the process
  // with a message when a result is wrong: a fast wrong sum is no figure.
  std::function<std::pair<double, std::uint64_t>()> round;
};

struct Figure {
  std::string name;
  double median_ns = 0;  // per operation
  double min_ns = 0;
  double max_ns = 0;
};

// One warm-up round of each, then `rounds` of each, interleaved.
[[nodiscard]] std::vector<Figure> measure(std::vector<Contender>& contenders, int rounds);

// CPU, cores, governor, kernel, load, version: what a reader needs to judge a figure; and warnings about what
// spoils figures on this machine right now.
[[nodiscard]] nlohmann::json environment();
void print_environment();

// `--json FILE` from the command line; empty if absent. Ends the process (exit code 2) on anything else.
[[nodiscard]] std::string json_argument(int argc, char** argv);
void write_json(const std::string& file, const nlohmann::json& results);

// Ends the process (exit code 1) when a result is wrong.
void require(bool right, const char* what);

}  // namespace tally::bench
