#include <gtest/gtest.h>

#include "tests/unit/engine/nn/test_network.h"

namespace paddle::nn {
namespace {

using Layers = std::vector<config::LayerConfig>;

Error build_error(const Layers& layers) {
  const auto built = Network::build(layers, parse_slots({"word", "label", "price:3"}));
  if (built) {
    ADD_FAILURE() << "it was built";
    return {};
  }
  EXPECT_EQ(built.error().code, Errc::kUsage);
  return built.error();
}

void expect_error(const Layers& layers, const std::string& message) {
  EXPECT_EQ(build_error(layers).message, message);
}

const config::LayerConfig kWords = embedding("words", {"word"}, 3, true);

TEST(BuildError, UnknownNamesComeWithASuggestion) {
  auto layer = fc("out", {"words"}, 3, "");
  layer.type = "concatt";
  expect_error({kWords, layer}, "layer 'out': unknown type 'concatt', did you mean 'concat'?");
  expect_error({kWords, fc("out", {"wrods"}, 3, "")},
               "layer 'out': unknown input 'wrods', did you mean 'words'?");
  expect_error({embedding("e", {"wrod"}, 3, true)},
               "layer 'e': unknown input 'wrod', did you mean 'word'?");
  expect_error({kWords, cost("cost", "words", "labbel")},
               "layer 'cost': unknown label 'labbel', did you mean 'label'?");
  expect_error({kWords, fc("out", {"words"}, 3, "swish")},
               "layer 'out': unknown activation 'swish'");
  auto pooled = kWords;
  pooled.pooling = "max";
  expect_error({pooled}, "layer 'words': unknown pooling 'max'");
}

TEST(BuildError, SaysWhereTheLayerIsWritten) {
  auto layer = fc("out", {"wrods"}, 3, "");
  layer.location = "job.toml:7";
  expect_error({kWords, layer},
               "job.toml:7: layer 'out': unknown input 'wrods', did you mean 'words'?");
  auto idle = kWords;
  idle.location = "job.toml:3";
  expect_error({idle}, "job.toml:3: layer 'words': no other layer reads it");
}

TEST(BuildError, OrderAndUse) {
  const auto forward = build_error({fc("a", {"b"}, 3, ""), fc("b", {"a"}, 3, "")});
  EXPECT_EQ(forward.message, "layer 'a': input 'b' is defined further down");
  EXPECT_EQ(forward.hint, "move layer 'b' above layer 'a'");
  expect_error({fc("a", {"a"}, 3, "")}, "layer 'a': it is its own input");
  expect_error({kWords, kWords}, "layer 'words': another layer has the same name");
  expect_error({embedding("word", {"word"}, 3, true)},
               "layer 'word': a data slot has the same name");
  expect_error({kWords}, "layer 'words': no other layer reads it");
  expect_error({}, "the network has no cost layer");
  expect_error({kWords, cost("c", "words", "label"), fc("x", {"c"}, 3, "")},
               "layer 'x': input 'c' is a cost layer, which has no output");
  expect_error({fc("x", {"word"}, 3, "")}, "layer 'x': input 'word' is a data slot of ids");
}

TEST(BuildError, SlotsOfTheWrongKind) {
  expect_error({embedding("e", {"price"}, 3, true)},
               "layer 'e': input 'price' is a slot of floats, it must be one of ids");
  expect_error({kWords, cost("cost", "words", "price")},
               "layer 'cost': label 'price' is a slot of floats, it must be one of ids");
  expect_error({fc("price", {"price"}, 3, "")}, "layer 'price': a data slot has the same name");
}

TEST(BuildError, MissingAndMisplacedKeys) {
  expect_error({kWords, cost("cost", "words", "")},
               "layer 'cost': key 'label' is missing: the data slot with the right answers");
  expect_error({kWords, fc("out", {"words"}, 0, "")},
               "layer 'out': key 'size' is missing: the number of outputs");
  expect_error({fc("out", {}, 3, "")}, "layer 'out': key 'input' is missing");
  auto dense = kWords;
  dense.weight.sparse = false;
  dense.vocabulary = 0;
  expect_error({dense}, "layer 'words': key 'vocabulary' is missing: the rows of a dense table");
  auto layer = concat("c", {"words"});
  layer.rate = 0.5F;
  expect_error(
      {kWords, layer},
      "layer 'c': key 'rate' applies to layers of type dropout, but this layer has type concat");
  layer.rate = 0;
  layer.size = 5;
  expect_error({kWords, layer}, "layer 'c': size is 5, its inputs have width 3");
  expect_error({kWords, dropout("d", "words", 1.0F)},
               "layer 'd': rate is 1, it must be at least 0 and below 1");
}

TEST(BuildError, AKeyIsOnlyForTheTypesThatReadIt) {
  using Config = config::LayerConfig;
  const std::vector<std::pair<std::string, void (*)(Config&)>> keys{
      {"'activation' applies to layers of type fc, activation",
       [](Config& layer) { layer.activation = "relu"; }},
      {"'pooling' applies to layers of type embedding",
       [](Config& layer) { layer.pooling = "sum"; }},
      {"'length' applies to layers of type embedding", [](Config& layer) { layer.length = 1; }},
      {"'padding_id' applies to layers of type embedding",
       [](Config& layer) { layer.padding_id = 0; }},
      {"'vocabulary' applies to layers of type embedding, nce, negative_sampling",
       [](Config& layer) { layer.vocabulary = 1; }},
      {"'negatives' applies to layers of type nce, negative_sampling",
       [](Config& layer) { layer.negatives = 1; }},
      {"'distribution' applies to layers of type nce, negative_sampling",
       [](Config& layer) { layer.distribution = "uniform"; }},
      {"'counts' applies to layers of type nce, negative_sampling",
       [](Config& layer) { layer.counts = {1}; }},
      {"'rate' applies to layers of type dropout", [](Config& layer) { layer.rate = 0.1F; }},
      {"'rank' applies to layers of type cross", [](Config& layer) { layer.rank = 1; }},
      {"'epsilon' applies to layers of type layer_norm",
       [](Config& layer) { layer.epsilon = 0.1F; }},
      {"'scale' applies to layers of type cosine_similarity",
       [](Config& layer) { layer.scale = 2; }},
      {"'label' applies to layers of type softmax_cross_entropy, binary_cross_entropy, "
       "squared_error, "
       "nce, negative_sampling",
       [](Config& layer) { layer.label = "label"; }}};
  for (const auto& [complaint, give] : keys) {
    auto layer = concat("c", {"words"});
    give(layer);
    expect_error({kWords, layer},
                 "layer 'c': key " + complaint + ", but this layer has type concat");
  }
}

TEST(BuildError, LayersThatDoNotFit) {
  const config::LayerConfig wide = embedding("wide", {"word"}, 4, true);
  expect_error({kWords, wide, layer("add", "s", {"words", "wide"})},
               "layer 's': input 'words' has width 3, input 'wide' has width 4");
  expect_error({kWords, layer("multiply", "s", {"words"})},
               "layer 's': takes at least 2 inputs, 1 is given");
  expect_error({kWords, layer("activation", "f", {"words"})},
               "layer 'f': key 'activation' is missing");
  expect_error({kWords, wide, layer("cosine_similarity", "c", {"words", "wide"})},
               "layer 'c': input 'words' has width 3, input 'wide' has width 4");
  expect_error({kWords, layer("cosine_similarity", "c", {"words"})},
               "layer 'c': takes 2 inputs, 1 is given");
  auto machine = layer("factorization_machine", "fm", {"words"});
  expect_error({kWords, machine}, "layer 'fm': key 'size' is missing: the factors of a field");
  machine.size = 2;
  expect_error({kWords, machine},
               "layer 'fm': input 'words' has width 3, which is not a multiple of size 2");
  machine.size = 3;
  expect_error({kWords, machine}, "layer 'fm': it needs at least two fields");
  expect_error({kWords, layer("cosine_similarity", "c", {"words", "words", "words"})},
               "layer 'c': takes 2 inputs, 3 are given");
  auto function = layer("activation", "f", {"words", "words"});
  function.activation = "relu";
  EXPECT_EQ(build_error({kWords, function}).hint, "join several with a layer of type concat");
  auto norm = layer("layer_norm", "n", {"words"});
  norm.weight.name = norm.bias.name = "w";
  expect_error({kWords, norm}, "layer 'n': weight and bias must have different names");
  auto bag = kWords;
  bag.pooling = "concat";
  expect_error({bag},
               "layer 'words': key 'length' is missing: the ids of an example that are kept");
  bag.pooling = "sum";
  bag.length = 2;
  expect_error({bag}, "layer 'words': key 'length' is for pooling = \"concat\"");
}

TEST(BuildError, CostsTakeLogitsAndLabelsOfTheirWidth) {
  auto two = cost("cost", "out", "price");
  two.type = "binary_cross_entropy";
  expect_error({kWords, fc("out", {"words"}, 1, "sigmoid"), two},
               "layer 'cost': input 'out' already applies sigmoid; this cost needs logits");
  expect_error({kWords, fc("out", {"words"}, 3, "softmax"), cost("cost", "out", "label")},
               "layer 'cost': input 'out' already applies softmax; this cost needs logits");
  expect_error({kWords, fc("out", {"words"}, 2, ""), two},
               "layer 'cost': label 'price' has 3 floats, but the input has 2 outputs");
  two.type = "squared_error";
  two.label = "label";
  expect_error(
      {kWords, fc("out", {"words"}, 2, ""), two},
      "layer 'cost': its label is a slot of ids, which is one number, but its input has 2 outputs");
}

TEST(BuildError, SampledCosts) {
  auto noise = cost("cost", "words", "label");
  noise.type = "nce";
  expect_error({kWords, noise}, "layer 'cost': key 'vocabulary' is missing: the classes");
  noise.vocabulary = 7;
  noise.distribution = "unigram";
  noise.counts = {1, 2};
  expect_error({kWords, noise}, "layer 'cost': 'counts' has 2 lines, but there are 7 classes");
  noise.distribution = "uniform";
  expect_error({kWords, noise}, "layer 'cost': key 'counts' needs distribution = \"unigram\"");
  noise.distribution = "zipf";
  expect_error({kWords, noise}, "layer 'cost': unknown distribution 'zipf'");
}

TEST(BuildError, SharedParametersMustAgree) {
  expect_error({embedding("a", {"word"}, 3, true, "t"), embedding("b", {"word"}, 4, true, "t")},
               "layer 'b': parameter 't' is sparse [0, 4] here and sparse [0, 3] in layer 'a'");
  expect_error({embedding("a", {"word"}, 3, true, "t"), embedding("b", {"word"}, 3, false, "t")},
               "layer 'b': parameter 't' is dense [7, 3] here and sparse [0, 3] in layer 'a'");
  auto other = embedding("b", {"word"}, 3, true, "t");
  other.weight.learning_rate = 2;
  expect_error({embedding("a", {"word"}, 3, true, "t"), other},
               "layer 'b': parameter 't' has other attributes here than in layer 'a'");
  expect_error({embedding("a", {"word"}, 3, true, "../t")},
               "layer 'a': parameter name '../t' cannot be a file name");
}

}  // namespace
}  // namespace paddle::nn
