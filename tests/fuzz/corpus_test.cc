// A fuzz target over its corpus and over seeded mutations of it: the part of scripts/fuzz that
// needs no clang and takes seconds.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/fuzz/input.h"

namespace paddle::fuzz {
namespace {

constexpr std::size_t kSeedBytesMax = 8192;

std::vector<std::string> corpus() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FUZZ_CORPUS)) {
    files.push_back(entry.path());
  }
  std::ranges::sort(files);
  std::vector<std::string> inputs;
  for (const auto& file : files) {
    std::ifstream in(file, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return inputs;
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

// Bytes changed, cut, repeated, or taken from another input.
std::string mutated(Rng& rng, const std::vector<std::string>& inputs) {
  std::string text = inputs[rng.below(inputs.size())];
  for (std::uint64_t left = 1 + rng.below(8); left > 0; --left) {
    const std::size_t at = rng.below(text.size() + 1);
    const std::string& other = inputs[rng.below(inputs.size())];
    switch (rng.below(4)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(rng.next());
        break;
      case 1:
        text.erase(at, rng.below(16));
        break;
      case 2:
        text.insert(at, text.substr(rng.below(text.size() + 1), rng.below(64)));
        break;
      default:
        text.insert(at, other.substr(rng.below(other.size() + 1), rng.below(256)));
    }
  }
  return text;
}

TEST(FUZZ_SUITE, RunsItsCorpusAndMutationsOfIt) {
  const std::vector<std::string> inputs = corpus();
  ASSERT_FALSE(inputs.empty());
  for (const std::string& input : inputs) {
    EXPECT_LE(input.size(), kSeedBytesMax);
    run(input);
  }
  Rng rng(20261123);
  for (int i = 0; i < FUZZ_MUTATIONS; ++i) run(mutated(rng, inputs));
}

}  // namespace
}  // namespace paddle::fuzz
