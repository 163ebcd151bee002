#pragma once
// Real layer lists: elements of each gradient tensor, in the order in which the model declares its
// parameters. What the demo, the benches and the experiments sum.

#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace tally::bench {

template <std::size_t Tensors>
using LayerList = std::array<std::uint32_t, Tensors>;

template <std::size_t Tensors>
constexpr std::uint64_t parameters_of(const LayerList<Tensors>& tensors) noexcept {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0});
}

// ResNet-50 (He et al., CVPR'16; ImageNet head). A convolution has weights only, each is followed by a batch
// norm's weight and bias.
constexpr LayerList<161> resnet50() noexcept {
  LayerList<161> tensors{};
  std::size_t n = 0;
  const auto convolution = [&](std::uint32_t in, std::uint32_t out, std::uint32_t side) {
    tensors[n++] = in * out * side * side;
    tensors[n++] = out;
    tensors[n++] = out;
  };
  convolution(3, 64, 7);
  std::uint32_t in = 64;
  const std::array<std::uint32_t, 4> blocks{3, 4, 6, 3};
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
  tensors[n++] = in * 1000;
  tensors[n++] = 1000;
  return tensors;
}

// BERT-base, uncased, the encoder without a task's head (Devlin et al., NAACL'19): embeddings, 12 layers,
// pooler.
constexpr LayerList<199> bert_base() noexcept {
  LayerList<199> tensors{};
  std::size_t n = 0;
  const std::uint32_t hidden = 768;
  const auto dense = [&](std::uint32_t in, std::uint32_t out) {  // weight, bias
    tensors[n++] = in * out;
    tensors[n++] = out;
  };
  const auto layer_norm = [&] {
    tensors[n++] = hidden;
    tensors[n++] = hidden;
  };
  tensors[n++] = 30522 * hidden;  // words
  tensors[n++] = 512 * hidden;    // positions
  tensors[n++] = 2 * hidden;      // token types
  layer_norm();
  for (int layer = 0; layer < 12; ++layer) {
    for (int i = 0; i < 4; ++i) dense(hidden, hidden);  // query, key, value, attention output
    layer_norm();
    dense(hidden, 4 * hidden);
    dense(4 * hidden, hidden);
    layer_norm();
  }
  dense(hidden, hidden);
  return tensors;
}

// DLRM for the Criteo terabyte data set (Naumov et al., arXiv 1906.00091; the sizes of MLPerf): the two
// perceptrons, whose gradients are summed. The embedding tables are divided among the workers and are not.
constexpr LayerList<16> dlrm() noexcept {
  LayerList<16> tensors{};
  std::size_t n = 0;
  const auto perceptron = [&](std::span<const std::uint32_t> widths) {
    for (std::size_t i = 1; i < widths.size(); ++i) {
      tensors[n++] = widths[i - 1] * widths[i];
      tensors[n++] = widths[i];
    }
  };
  // 13 numbers; their 128 features and the products of each two of 27 vectors.
  const std::array<std::uint32_t, 4> bottom{13, 512, 256, 128};
  const std::array<std::uint32_t, 6> top{128 + 27 * 26 / 2, 1024, 1024, 512, 256, 1};
  perceptron(bottom);
  perceptron(top);
  return tensors;
}

// VGG-19 (Simonyan, Zisserman, ICLR'15; configuration E, ImageNet head): 16 convolutions of 3 x 3, three
// dense layers.
constexpr LayerList<38> vgg19() noexcept {
  LayerList<38> tensors{};
  std::size_t n = 0;
  std::uint32_t in = 3;
  const std::array<std::uint32_t, 5> widths{64, 128, 256, 512, 512};
  for (std::uint32_t stage = 0; stage < 5; ++stage) {
    for (std::uint32_t i = 0; i < (stage < 2 ? 2U : 4U); ++i) {
      tensors[n++] = in * widths[stage] * 9;
      tensors[n++] = widths[stage];
      in = widths[stage];
    }
  }
  std::uint32_t from = 512 * 7 * 7;
  for (const std::uint32_t to : {4096U, 4096U, 1000U}) {
    tensors[n++] = from * to;
    tensors[n++] = to;
    from = to;
  }
  return tensors;
}

// NeuMF (He et al., WWW'17) with MLPerf's sizes for MovieLens-20M: embeddings of users and items for the
// product (64 wide) and for the perceptron (128 wide), whose gradients are summed like all others.
constexpr LayerList<12> neumf() noexcept {
  const std::uint32_t users = 138'493;
  const std::uint32_t items = 26'744;
  return {users * 64, items * 64, users * 128, items * 128, 256 * 256, 256,
          256 * 128,  128,        128 * 64,    64,          128,       1};
}

inline constexpr LayerList<161> kResnet50 = resnet50();
inline constexpr LayerList<199> kBertBase = bert_base();
inline constexpr LayerList<16> kDlrm = dlrm();
inline constexpr LayerList<38> kVgg19 = vgg19();
inline constexpr LayerList<12> kNeuMf = neumf();

// A tensor too few would leave a 0 at the end, one too many would not compile.
static_assert(kResnet50.back() == 1000 && parameters_of(kResnet50) == 25'557'032);
static_assert(kBertBase.back() == 768 && parameters_of(kBertBase) == 109'482'240);
static_assert(kDlrm.back() == 1 && parameters_of(kDlrm) == 2'368'897);
static_assert(kVgg19.back() == 1000 && parameters_of(kVgg19) == 143'667'240);
static_assert(kNeuMf.back() == 1 && parameters_of(kNeuMf) == 31'832'577);
// Some of the sizes by themselves, so that two mistakes cannot make up for each other.
static_assert(kResnet50[0] == 9'408 && kResnet50[159] == 2'048'000);
static_assert(kBertBase[0] == 23'440'896 && kBertBase[1] == 393'216 && kBertBase[2] == 1'536);
static_assert(std::accumulate(&kBertBase[5], &kBertBase[21], 0U) == 7'087'872, "a layer of BERT");
static_assert(kBertBase[197] == 589'824);
static_assert(kDlrm[0] == 13 * 512 && kDlrm[5] == 128 && kDlrm[6] == 479 * 1024);

}  // namespace tally::bench
