#include "tests/unit/engine/nn/reference_network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "engine/math/elementwise.h"
#include "engine/nn/run.h"
#include "engine/nn/sampler.h"
#include "tests/unit/engine/math/reference.h"

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

  const Slot& slot_of(const std::string& name) const {
    std::size_t s = 0;
    while (parse_slots(test.slots)[s].name != name) ++s;
    return batch.slots[s];
  }

  std::size_t first_id(const std::string& slot, std::size_t example) const {
    return slot_of(slot).offsets.empty() ? example : slot_of(slot).offsets[example];
  }

  std::span<const std::uint64_t> ids(const std::string& name, std::size_t example) const {
    const Slot& slot = slot_of(name);
    if (slot.offsets.empty()) return {&slot.ids[example], 1};
    return std::span(slot.ids).subspan(slot.offsets[example],
                                       slot.offsets[example + 1] - slot.offsets[example]);
  }

  Vector embedding(const config::LayerConfig& layer, std::size_t example) const {
    const Vector& table =
        parameter(layer.weight.name.empty() ? "_" + layer.name + ".w0" : layer.weight.name);
    const bool concat = layer.pooling == "concat";
    Vector out;
    for (const std::string& slot : layer.inputs) {
      Vector sum(layer.size * (concat ? layer.length : 1), 0);
      const auto bag = ids(slot, example);
      const std::size_t first = first_id(slot, example);
      double counted = 0;
      for (std::size_t k = 0; k < bag.size(); ++k) {
        if (bag[k] == layer.padding_id || (concat && k >= layer.length)) continue;
        ++counted;
        const auto& weights = slot_of(slot).weights;
        const double weight = weights.empty() ? 1.0 : static_cast<double>(weights[first + k]);
        double* to = sum.data() + (concat ? k * layer.size : 0);
        for (std::size_t c = 0; c < layer.size; ++c) {
          to[c] += weight * table[bag[k] * layer.size + c];
        }
      }
      if (layer.pooling == "mean" && counted > 0) {
        for (double& value : sum) value /= counted;
      }
      out.insert(out.end(), sum.begin(), sum.end());
    }
    return out;
  }

  Vector fc(const config::LayerConfig& layer, const std::map<std::string, Vector>& outputs) const {
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
    return activate(layer.activation, std::move(out));
  }

  static Vector activate(const std::string& name, Vector row) {
    if (name == "softmax") return kernels::reference::softmax(row);
    for (double& value : row)
      value = kernels::reference::activate(name.empty() ? "identity" : name, value);
    return row;
  }

  Vector layer_norm(const config::LayerConfig& layer, const Vector& in) const {
    const Vector& gain = parameter("_" + layer.name + ".w0");
    const Vector& bias = parameter("_" + layer.name + ".wbias");
    const auto width = static_cast<double>(in.size());
    const double mean = std::accumulate(in.begin(), in.end(), 0.0) / width;
    double variance = 0;
    for (const double x : in) variance += (x - mean) * (x - mean) / width;
    const double epsilon = layer.epsilon > 0 ? static_cast<double>(layer.epsilon) : 1e-5;
    Vector out;
    for (std::size_t c = 0; c < in.size(); ++c) {
      out.push_back((in[c] - mean) / std::sqrt(variance + epsilon) * gain[c] + bias[c]);
    }
    return out;
  }

  Vector product(const Vector& x, const Vector& weight) const {
    Vector out(weight.size() / x.size(), 0);
    for (std::size_t i = 0; i < weight.size(); ++i) {
      out[i % out.size()] += x[i / out.size()] * weight[i];
    }
    return out;
  }

  Vector cross(const config::LayerConfig& layer, const Vector& first, const Vector& x) const {
    Vector out = product(x, parameter("_" + layer.name + ".w0"));
    if (layer.rank > 0) out = product(out, parameter("_" + layer.name + ".w1"));
    for (std::size_t c = 0; c < out.size(); ++c) {
      if (layer.has_bias) out[c] += parameter("_" + layer.name + ".wbias")[c];
      out[c] = first[c] * out[c] + x[c];
    }
    return out;
  }

  // Sum over pairs, as in the definition.
  static double pairs(const Vector& v, std::size_t factors) {
    double sum = 0;
    for (std::size_t f = 0; f < v.size() / factors; ++f) {
      for (std::size_t g = 0; g < f; ++g) {
        for (std::size_t c = 0; c < factors; ++c) sum += v[f * factors + c] * v[g * factors + c];
      }
    }
    return sum;
  }

  static double dot(const Vector& a, const Vector& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  }

  // Layers that read only the outputs of earlier layers.
  Vector combine(const config::LayerConfig& layer, const std::vector<Vector>& in) const {
    Vector out = in[0];
    if (layer.type == "activation") return activate(layer.activation, std::move(out));
    if (layer.type == "layer_norm") return layer_norm(layer, out);
    if (layer.type == "cross") return cross(layer, in.front(), in.back());
    for (std::size_t i = 1; i < in.size(); ++i) {
      if (layer.type == "concat" || layer.type == "factorization_machine") {
        out.insert(out.end(), in[i].begin(), in[i].end());
      }
      for (std::size_t c = 0; c < in[i].size(); ++c) {
        if (layer.type == "add") out[c] += in[i][c];
        if (layer.type == "multiply") out[c] *= in[i][c];
      }
    }
    if (layer.type == "factorization_machine") return {pairs(out, layer.size)};
    if (layer.type == "cosine_similarity") {
      const double scale = layer.scale != 0 ? static_cast<double>(layer.scale) : 1.0;
      const double norms = std::sqrt(dot(in[0], in[0]) * dot(in[1], in[1]));
      return {norms > 0 ? scale * dot(in[0], in[1]) / norms : 0.0};
    }
    return out;
  }

  // Label of output `c` of `width`.
  double label(const config::LayerConfig& layer, std::size_t example, std::size_t width,
               std::size_t c) const {
    const Slot& slot = slot_of(layer.label);
    if (!slot.values.empty()) return static_cast<double>(slot.values[example * width + c]);
    const auto own = ids(layer.label, example);
    if (width == 1) return static_cast<double>(own[0]);
    return std::ranges::find(own, c) != own.end() ? 1.0 : 0.0;
  }

  double label_cost(const config::LayerConfig& layer, const Vector& x, std::size_t example) const {
    double sum = 0;
    for (std::size_t c = 0; c < x.size(); ++c) {
      const double y = label(layer, example, x.size(), c);
      if (layer.type == "squared_error") sum += (x[c] - y) * (x[c] - y);
      if (layer.type == "binary_cross_entropy") {
        const double p = 1 / (1 + std::exp(-x[c]));
        sum -= y * std::log(p) + (1 - y) * std::log(1 - p);
      }
    }
    return sum;
  }

  double sampled_cost(const config::LayerConfig& layer, const Vector& x,
                      std::size_t example) const {
    const Vector& weight = parameter("_" + layer.name + ".w0");
    const std::uint64_t label = ids(layer.label, example)[0];
    const Sampler sampler =
        layer.counts.empty() ? Sampler::uniform(layer.vocabulary) : Sampler::unigram(layer.counts);
    Rng rng(example_stream(seed, layer.name, example));
    double sum = 0;
    for (std::uint32_t k = 0; k <= layer.negatives; ++k) {
      const std::uint64_t id = k == 0 ? label : sampler.draw(rng.next());
      if (k > 0 && id == label && layer.type == "negative_sampling") continue;
      double score = layer.has_bias ? parameter("_" + layer.name + ".wbias")[id] : 0;
      for (std::size_t c = 0; c < x.size(); ++c) score += x[c] * weight[id * x.size() + c];
      if (layer.type == "nce") score -= std::log(layer.negatives * sampler.probability(id));
      sum += std::log1p(std::exp(k == 0 ? -score : score));
    }
    return sum;
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
      std::vector<Vector> in;
      for (const std::string& input : layer.inputs) in.push_back(outputs[input]);
      if (layer.type != "embedding" && layer.type != "fc") out = combine(layer, in);
      if (layer.type == "dropout") {
        out = outputs[layer.inputs[0]];
        std::vector<float> mask(out.size());
        kernels::dropout_mask(example_stream(seed, layer.name, example), layer.rate, mask.size(),
                              mask.data());
        for (std::size_t i = 0; i < out.size(); ++i) out[i] *= static_cast<double>(mask[i]);
      }
      if (layer.type == "squared_error" || layer.type == "binary_cross_entropy") {
        sum += label_cost(layer, in[0], example);
      }
      if (layer.type == "nce" || layer.type == "negative_sampling") {
        sum += sampled_cost(layer, in[0], example);
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
