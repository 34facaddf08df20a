#include "tests/unit/nn/reference_network.h"

#include <algorithm>

#include "engine/kernels/reference.h"
#include "engine/nn/dropout.h"

namespace paddle::nn {
namespace {

using Vector = std::vector<double>;

struct Reference {
  const TestNetwork& test;
  const std::vector<Vector>& values;
  const Batch& batch;
  std::uint64_t seed;

  const Vector& parameter(const std::string& name) const {
    std::size_t p = 0;
    while (test.network.parameters()[p].name() != name) ++p;
    return values[p];
  }

  std::span<const std::uint64_t> ids(const std::string& slot_name, std::size_t example) const {
    std::size_t s = 0;
    while (parse_slots(test.slots)[s].name != slot_name) ++s;
    const Slot& slot = batch.slots[s];
    if (slot.offsets.empty()) return {&slot.ids[example], 1};
    return std::span(slot.ids).subspan(slot.offsets[example],
                                       slot.offsets[example + 1] - slot.offsets[example]);
  }

  Vector embedding(const config::LayerConfig& layer, std::size_t example) const {
    const Vector& table =
        parameter(layer.weight.name.empty() ? "_" + layer.name + ".w0" : layer.weight.name);
    Vector out;
    for (const std::string& slot : layer.inputs) {
      Vector sum(layer.size, 0);
      const auto bag = ids(slot, example);
      for (const std::uint64_t id : bag) {
        for (std::size_t c = 0; c < layer.size; ++c) sum[c] += table[id * layer.size + c];
      }
      if (layer.pooling == "mean" && !bag.empty()) {
        for (double& value : sum) value /= static_cast<double>(bag.size());
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
    return out;
  }

  Vector fc(const config::LayerConfig& layer, const std::map<std::string, Vector>& outputs) const {
    using kernels::Activation;
    static const std::map<std::string, Activation> kinds{{"identity", Activation::kIdentity},
                                                         {"sigmoid", Activation::kSigmoid},
                                                         {"relu", Activation::kRelu},
                                                         {"tanh", Activation::kTanh}};
    Vector out = layer.has_bias ? parameter("_" + layer.name + ".wbias") : Vector(layer.size, 0);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const Vector& in = outputs.at(layer.inputs[i]);
      const Vector& weight =
          parameter(layer.weight.name.empty() ? "_" + layer.name + ".w" + std::to_string(i)
                                              : layer.weight.name);
      for (std::size_t r = 0; r < in.size(); ++r) {
        for (std::size_t c = 0; c < layer.size; ++c) out[c] += in[r] * weight[r * layer.size + c];
      }
    }
    for (double& value : out) {
      value = kernels::reference::activate(kinds.at(layer.activation), value);
    }
    return out;
  }

  double cost(std::size_t example) const {
    std::map<std::string, Vector> outputs;
    const auto slots = parse_slots(test.slots);
    for (std::size_t s = 0; s < slots.size(); ++s) {
      for (std::size_t c = 0; c < slots[s].width; ++c) {
        outputs[slots[s].name].push_back(batch.slots[s].values[example * slots[s].width + c]);
      }
    }
    double sum = 0;
    for (const config::LayerConfig& layer : test.layers) {
      Vector& out = outputs[layer.name];
      if (layer.type == "embedding") out = embedding(layer, example);
      if (layer.type == "fc") out = fc(layer, outputs);
      if (layer.type == "concat") {
        for (const std::string& input : layer.inputs) {
          out.insert(out.end(), outputs[input].begin(), outputs[input].end());
        }
      }
      if (layer.type == "dropout") {
        out = outputs[layer.inputs[0]];
        std::vector<float> mask(out.size());
        kernels::dropout_mask(dropout_stream(seed, layer.name, example), layer.rate, mask.size(),
                              mask.data());
        for (std::size_t i = 0; i < out.size(); ++i) out[i] *= static_cast<double>(mask[i]);
      }
      if (layer.type == "softmax_cross_entropy") {
        sum += kernels::reference::softmax_cross_entropy(outputs[layer.inputs[0]],
                                                         ids(layer.label, example)[0], nullptr);
      }
    }
    return sum;
  }
};

}  // namespace

double reference_cost(const TestNetwork& test, const std::vector<std::vector<double>>& values,
                      const Batch& batch, std::uint64_t seed) {
  const Reference reference{test, values, batch, seed};
  double sum = 0;
  for (std::size_t example = 0; example < batch.size; ++example) sum += reference.cost(example);
  return sum;
}

}  // namespace paddle::nn
