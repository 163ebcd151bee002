#pragma once
// Real layer lists: elements of each gradient tensor, in the order in which the model declares its
// parameters.

#include <cstdint>
#include <vector>

namespace tally::bench {

// ResNet-50 (He et al., CVPR'16; ImageNet head): 161 tensors, 25,557,032 parameters. A convolution has
// weights only, each is followed by a batch norm's weight and bias.
inline std::vector<std::uint32_t> resnet50() {
  std::vector<std::uint32_t> tensors;
  const auto convolution = [&](std::uint32_t in, std::uint32_t out, std::uint32_t side) {
    tensors.push_back(in * out * side * side);
    tensors.push_back(out);
    tensors.push_back(out);
  };
  convolution(3, 64, 7);
  std::uint32_t in = 64;
  const std::uint32_t blocks[] = {3, 4, 6, 3};
  for (std::uint32_t stage = 0; stage < 4; ++stage) {
    const std::uint32_t width = 64U << stage;
    for (std::uint32_t block = 0; block < blocks[stage]; ++block) {
      convolution(in, width, 1);
      convolution(width, width, 3);
      convolution(width, 4 * width, 1);
      if (block == 0) convolution(in, 4 * width, 1);  // the shortcut changes its width
      in = 4 * width;
    }
  }
  tensors.push_back(in * 1000);
  tensors.push_back(1000);
  return tensors;
}

}  // namespace tally::bench
