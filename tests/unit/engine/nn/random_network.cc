#include "tests/unit/engine/nn/random_network.h"

#include <algorithm>
#include <array>
#include <set>

#include <fmt/format.h>

namespace paddle::nn {

const std::vector<std::string> kRandomSlots{"x:5",           "y:3", "class", "click",    "tags",
                                            "target:4",      "a",   "b",     "weighted", "words",
                                            "weighted_words"};

namespace {

constexpr std::size_t kClasses = 3;  // of slots "class" and "tags"
constexpr std::size_t kTargets = 4;  // floats of slot "target"

class NetworkMaker {
 public:
  explicit NetworkMaker(std::uint64_t seed) : rng_(seed), outputs_{{"x", 5}, {"y", 3}} {}

  std::vector<config::LayerConfig> make() {
    for (std::uint64_t i = 3 + rng_.below(10); i > 0; --i) add_any();
    std::vector<std::string> unread;
    for (const Output& output : outputs_) {
      if (!read_.contains(output.name)) unread.push_back(output.name);
    }
    for (std::uint64_t i = rng_.below(3); i > 0; --i) {
      chance(3) ? add_sampled_cost(any().name) : add_cost({any().name});
    }
    add_cost(unread.empty() ? std::vector{any().name} : unread);
    return layers_;
  }

 private:
  struct Output {
    std::string name;
    std::size_t width;
  };

  bool chance(std::uint64_t one_in) { return rng_.below(one_in) == 0; }
  const Output& any() { return outputs_[rng_.below(outputs_.size())]; }
  // There is one.
  const Output& any_of_width(std::size_t width) {
    while (true) {
      const Output& output = any();
      if (output.width == width) return output;
    }
  }
  std::string new_name(std::string_view type) { return fmt::format("{}{}", type, layers_.size()); }
  // Often one of two, so that parameters can be shared.
  std::size_t any_size() { return chance(2) ? 4 + 12 * rng_.below(2) : 1 + rng_.below(40); }
  std::string any_activation() {
    const auto all = kernels::activations();
    return std::string(all[rng_.below(all.size())].name);
  }

  Output add(config::LayerConfig config, std::size_t width) {
    read_.insert(config.inputs.begin(), config.inputs.end());
    layers_.push_back(std::move(config));
    if (width > 0) outputs_.push_back({layers_.back().name, width});
    return {layers_.back().name, width};
  }

  void add_any() {
    using Add = void (NetworkMaker::*)();
    static constexpr auto kAdds = std::to_array<Add>({
        &NetworkMaker::add_fc,
        &NetworkMaker::add_activation,
        &NetworkMaker::add_elementwise,
        &NetworkMaker::add_concat,
        &NetworkMaker::add_dropout,
        &NetworkMaker::add_embedding,
        &NetworkMaker::add_concat_of_embedding,
        &NetworkMaker::add_layer_norm,
        &NetworkMaker::add_factorization_machine,
        &NetworkMaker::add_cosine_similarity,
        &NetworkMaker::add_cross,
    });
    (this->*kAdds[rng_.below(kAdds.size())])();
  }

  void add_fc() {
    const Output first = any();
    config::LayerConfig config = fc(new_name("fc"), {first.name}, any_size(), "");
    if (!chance(3)) config.activation = any_activation();
    config.has_bias = !chance(4);
    if (!chance(3)) config.bias.name = fmt::format("b_{}", config.size);
    if (chance(3)) {
      config.inputs.push_back(any().name);
    } else if (chance(2)) {
      config.weight.name = fmt::format("w_{}_{}", first.width, config.size);
    }
    const std::size_t size = config.size;
    add(std::move(config), size);
  }

  void add_activation() {
    const Output input = any();
    config::LayerConfig config = layer("activation", new_name("activation"), {input.name});
    config.activation = any_activation();
    add(std::move(config), input.width);
  }

  void add_elementwise() {
    const std::string type = chance(2) ? "add" : "multiply";
    const Output first = any();
    config::LayerConfig config = layer(type, new_name(type), {first.name});
    for (std::uint64_t i = 1 + rng_.below(2); i > 0; --i) {
      config.inputs.push_back(any_of_width(first.width).name);
    }
    add(std::move(config), first.width);
  }

  void add_concat() {
    config::LayerConfig config = concat(new_name("concat"), {});
    std::size_t width = 0;
    for (std::uint64_t i = 1 + rng_.below(3); i > 0; --i) {
      const Output input = any();
      config.inputs.push_back(input.name);
      width += input.width;
    }
    add(std::move(config), width);
  }

  void add_embedding() { new_embedding(); }

  Output new_embedding() {
    static const std::vector<std::string> kOfOneId{"a", "b", "weighted"};
    static const std::vector<std::string> kAll{"a", "b", "weighted", "words", "weighted_words"};
    static const std::vector<std::string> kPoolings{"", "", "sum", "mean", "concat"};
    const bool is_sparse = chance(2);
    config::LayerConfig config = embedding(new_name("rows"), {}, 1 + rng_.below(9), is_sparse);
    config.pooling = kPoolings[rng_.below(kPoolings.size())];
    if (config.pooling == "concat") config.length = static_cast<std::uint32_t>(1 + rng_.below(4));
    const auto& slots = config.pooling.empty() ? kOfOneId : kAll;
    for (std::uint64_t i = 1 + rng_.below(3); i > 0; --i) {
      config.inputs.push_back(slots[rng_.below(slots.size())]);
    }
    if (chance(3)) config.padding_id = rng_.below(kTestVocabulary);
    if (chance(2)) config.weight.name = fmt::format("table_{}_{}", config.size, is_sparse);
    const std::size_t width =
        config.size * config.inputs.size() * std::max<std::size_t>(config.length, 1);
    return add(std::move(config), width);
  }

  // Nothing else reads the embedding at first, so that it may be redirected.
  void add_concat_of_embedding() {
    const Output rows = new_embedding();
    const Output other = chance(2) ? any() : new_embedding();
    std::vector<std::string> inputs{rows.name, other.name};
    if (chance(2)) std::swap(inputs[0], inputs[1]);
    add(concat(new_name("concat"), inputs), rows.width + other.width);
  }

  void add_layer_norm() {
    const Output input = any();
    config::LayerConfig config = layer("layer_norm", new_name("norm"), {input.name});
    if (chance(3)) config.weight.name = fmt::format("gain_{}", input.width);
    if (chance(3)) config.bias.name = fmt::format("b_{}", input.width);
    add(std::move(config), input.width);
  }

  void add_factorization_machine() {
    const Output first = any();
    config::LayerConfig config = layer("factorization_machine", new_name("fm"),
                                       {first.name, any_of_width(first.width).name});
    config.size = chance(3) ? 1 : first.width;
    add(std::move(config), 1);
  }

  void add_cosine_similarity() {
    const Output first = any();
    config::LayerConfig config =
        layer("cosine_similarity", new_name("cos"), {first.name, any_of_width(first.width).name});
    if (chance(2)) config.scale = 5;
    add(std::move(config), 1);
  }

  void add_cross() {
    const Output first = any();
    config::LayerConfig config = layer("cross", new_name("cross"), {first.name});
    if (chance(2)) config.inputs.push_back(any_of_width(first.width).name);
    if (chance(2)) config.rank = static_cast<std::uint32_t>(1 + rng_.below(first.width));
    config.has_bias = !chance(3);
    if (!chance(3)) config.bias.name = fmt::format("b_{}", first.width);
    if (config.rank == 0 && chance(3)) {
      config.weight.name = fmt::format("w_{}_{}", first.width, first.width);
    }
    add(std::move(config), first.width);
  }

  void add_dropout() {
    const Output input = any();
    add(dropout(new_name("dropout"), input.name, chance(4) ? 0.0F : 0.4F), input.width);
  }

  // Input of a cost: now and then an earlier layer, which others read too.
  Output logits(const std::vector<std::string>& inputs, std::size_t width) {
    if (inputs.size() == 1 && chance(4)) {
      const auto found = std::ranges::find(outputs_, inputs[0], &Output::name);
      const auto config = std::ranges::find(layers_, inputs[0], &config::LayerConfig::name);
      const bool fits = config != layers_.end() && config->activation != "softmax" &&
                        config->activation != "sigmoid" && found->width == width;
      if (fits) return *found;
    }
    return add(fc(new_name("logits"), inputs, width, chance(2) ? "identity" : "tanh"), width);
  }

  void add_sampled_cost(const std::string& input) {
    const std::string type = chance(2) ? "nce" : "negative_sampling";
    config::LayerConfig config = layer(type, new_name("sampled"), {input});
    config.label = "class";
    config.vocabulary = kTestVocabulary;
    config.negatives = static_cast<std::uint32_t>(rng_.below(6));
    config.has_bias = !chance(3);
    if (chance(2)) {
      config.distribution = "unigram";
      config.counts = {9, 1, 4, 2, 2, 7, 3};
    }
    if (chance(2)) {
      const auto found = std::ranges::find(outputs_, input, &Output::name);
      config.weight.name = fmt::format("table_{}_true", found->width);
    }
    add(std::move(config), 0);
  }

  void add_cost(const std::vector<std::string>& inputs) {
    struct Choice {
      std::string type;
      std::string label;
      std::size_t width;
    };
    const auto choices = std::to_array<Choice>({
        {"softmax_cross_entropy", "class", kClasses + rng_.below(20)},
        {"binary_cross_entropy", "click", 1},
        {"binary_cross_entropy", "tags", kClasses},
        {"squared_error", "target", kTargets},
        {"squared_error", "class", 1},
    });
    const Choice& choice = choices[rng_.below(choices.size())];
    const Output input = logits(inputs, choice.width);
    config::LayerConfig config = layer(choice.type, new_name("cost"), {input.name});
    config.label = choice.label;
    add(std::move(config), 0);
  }

  Rng rng_;
  std::vector<config::LayerConfig> layers_;
  std::vector<Output> outputs_;
  std::set<std::string> read_{"x", "y"};
};

}  // namespace

std::vector<config::LayerConfig> random_layers(std::uint64_t seed) {
  return NetworkMaker(seed).make();
}

Batch random_batch(std::uint64_t seed, std::size_t size) {
  Rng rng(seed);
  const std::size_t drawn = 1 + rng.below(40);
  Batch batch{size == 0 ? drawn : size, std::vector<Slot>(kRandomSlots.size())};
  const auto put_floats = [&](std::size_t slot, std::size_t width) {
    for (std::size_t i = 0; i < batch.size * width; ++i) {
      batch.slots[slot].values.push_back(static_cast<float>(rng.normal()));
    }
  };
  const auto put_ids = [&](std::size_t slot, std::size_t below) {
    for (std::size_t i = 0; i < batch.size; ++i) batch.slots[slot].ids.push_back(rng.below(below));
  };
  const auto put_bags = [&](std::size_t slot, std::size_t below) {
    batch.slots[slot].offsets.push_back(0);
    for (std::size_t i = 0; i < batch.size; ++i) {
      for (std::uint64_t k = rng.below(5); k > 0; --k) {
        batch.slots[slot].ids.push_back(rng.below(below));
      }
      batch.slots[slot].offsets.push_back(static_cast<std::uint32_t>(batch.slots[slot].ids.size()));
    }
  };
  const auto put_weights = [&](std::size_t slot) {
    for (std::size_t i = 0; i < batch.slots[slot].ids.size(); ++i) {
      batch.slots[slot].weights.push_back(static_cast<float>(rng.normal()));
    }
  };
  put_floats(0, 5);
  put_floats(1, 3);
  put_ids(2, kClasses);
  put_ids(3, 2);
  put_bags(4, kClasses);
  put_floats(5, kTargets);
  for (const std::size_t slot : {6U, 7U, 8U}) put_ids(slot, kTestVocabulary);
  for (const std::size_t slot : {9U, 10U}) put_bags(slot, kTestVocabulary);
  put_weights(8);
  put_weights(10);
  return batch;
}

}  // namespace paddle::nn
