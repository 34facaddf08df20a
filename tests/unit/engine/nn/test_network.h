// Configurations of layers in one line, and a network with values and scratch memory to run.
#pragma once

#include <string>
#include <vector>

#include "engine/nn/network.h"

namespace paddle::nn {

config::LayerConfig embedding(std::string name, std::vector<std::string> slots, std::uint64_t size,
                              bool sparse, std::string parameter = "");
config::LayerConfig fc(std::string name, std::vector<std::string> inputs, std::uint64_t size,
                       std::string activation);
config::LayerConfig concat(std::string name, std::vector<std::string> inputs);
config::LayerConfig dropout(std::string name, std::string input, float rate);
// For types without keys of their own.
config::LayerConfig layer(std::string type, std::string name, std::vector<std::string> inputs);
config::LayerConfig labelled(std::string type, std::string name, std::string input,
                             std::string label = "y");
config::LayerConfig cost(std::string name, std::string input, std::string label);

constexpr std::uint64_t kTestVocabulary = 7;
// Two slots of ids and their labels, and five examples of them.
const std::vector<std::string> kSlots{"a", "b", "label"};
const Batch kFive{5, {{{0, 3, 3, 6, 1}}, {{2, 3, 0, 6, 5}}, {{1, 0, 2, 2, 1}}}};

// "word" stands for a slot of ids, "price:3" for one of three floats, "weight:1" for weights.
std::vector<config::SlotConfig> parse_slots(const std::vector<std::string>& slots);

// Network with its parameter values, which are random at first and learn by step().
class TestNetwork {
 public:
  TestNetwork(std::vector<config::LayerConfig> layers, std::vector<std::string> slots,
              std::uint64_t seed = 1);

  // Forward and backward over the batch in `parts` pieces, gradients summed; returns the cost sum.
  double run(const Batch& batch, std::size_t parts = 1, std::uint64_t draw_seed = 5);
  Result<double> test(const Batch& batch);
  // Parameters for a run of the batch; valid until the next call.
  Parameters views(const Batch& batch, std::uint64_t draw_seed);
  // values -= rate * gradient of the last run
  void step(float rate);

  // By parameter; a sparse one has all kTestVocabulary rows.
  std::vector<std::vector<float>> values;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<std::uint64_t>> ids;  // of the last batch

  std::vector<config::LayerConfig> layers;
  std::vector<std::string> slots;
  Network network;
  Workspace workspace;
  float cost_scale = 1;  // of run
  kernels::Compute compute = kernels::Compute::kFloat32;

 private:
  std::vector<std::vector<float>> rows_;
};

// Expects that testing the batch fails with kData and this message.
void expect_data_error(TestNetwork& test, const Batch& batch, const std::string& message);

}  // namespace paddle::nn
