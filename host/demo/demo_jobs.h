#pragma once
// What the demo's jobs sum: by the name that the configuration gives a job.

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "layer_list.h"

namespace tally {

struct DemoModel {
  std::string_view job;    // its name in the configuration
  std::string_view title;  // for people
  std::span<const std::uint32_t> tensors;
  std::uint32_t times =
      1;  // iterations for each of the largest model's, so that all have about as much to do
  bool comes_midway = false;  // its workers are started when the other jobs are half way

  [[nodiscard]] constexpr std::uint64_t parameters() const noexcept {
    std::uint64_t n = 0;
    for (const auto tensor : tensors) n += tensor;
    return n;
  }
};

inline constexpr std::array<DemoModel, 3> kDemoModels{{
    {"resnet50", "ResNet-50", kResnet50, 4},
    {"bert", "BERT-base", kBertBase},
    {"urgent", "DLRM", kDlrm, 12, true},
}};

// nullptr: the demo has no such job.
constexpr const DemoModel* find_model(std::string_view job) noexcept {
  for (const auto& model : kDemoModels) {
    if (model.job == job) return &model;
  }
  return nullptr;
}

}  // namespace tally
