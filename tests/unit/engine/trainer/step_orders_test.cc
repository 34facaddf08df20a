// The orders that a training step of each template gives to a card: forward, backward and, where a
// card can make it, the update of the dense parameters that stay there.
#include <map>

#include <gtest/gtest.h>

#include "engine/group/card_ranks.h"
#include "engine/trainer/connection.h"
#include "engine/trainer/model.h"
#include "tests/unit/engine/group/group_fixture.h"
#include "tests/unit/engine/nn/template_networks.h"
#include "tests/unit/engine/trainer/fake_cards.h"

namespace paddle::trainer {
namespace {

struct Orders {
  std::size_t kernels = 0;  // products of the library too
  std::size_t copies = 0;
  std::size_t graphs = 0;  // replayed
};

// At most, by template. CTR-DNN's 22 kernels are the budget that the targets of speed rest on; the
// others are what they came to.
const std::map<std::string, Orders> kBudgets = {
    {"ctr_dnn/job", {22, 5, 1}},    {"dcn/job", {44, 5, 1}},
    {"deep_fm/job", {32, 5, 1}},    {"digits/job", {13, 4, 1}},
    {"quick_start/job", {3, 2, 1}}, {"recommender/job", {15, 3, 1}},
    {"skipgram/job", {19, 2, 1}},   {"wide_deep/job", {29, 5, 1}},
    {"word2vec/job", {21, 4, 1}},   {"word2vec/penn_treebank", {29, 4, 1}},
};

Orders orders_of_step(const nn::TemplateNetwork& network) {
  FakeCards cards(1);
  test::FakeDevice* device = nullptr;
  cards.driver.on_open([&](test::FakeDevice& opened) { device = &opened; });
  config::JobConfig job = network.job;
  job.train.trainer_count = 1;
  job.train.device = config::TrainDevice::kGpu;
  Model model = *Model::build(job);
  const wire::ParameterSet set = parameter_set(job, model.parameters(), {});
  const auto group =
      *collective::Group::join(std::move(collective::options_of(1)[0]), collective::soon());
  std::unique_ptr<strategy::CardRanks> dense;
  if (strategy::CardRanks::can_keep(set)) {
    dense = *strategy::CardRanks::create(set, *group, {*model.compute_stream(), "job", true});
    EXPECT_TRUE(dense->lend(model.dense()));
  }
  // The last step is the second one with the second set of inputs: it makes their graph, and takes
  // no memory.
  test::FakeDevice::Counts before;
  for (std::uint64_t step = 0; step < 4; ++step) {
    before = device->counts();
    EXPECT_TRUE(model.prepare(network.batch, step));
    const auto score = model.train(network.batch, step);
    EXPECT_TRUE(score) << score.error().message;
    if (dense == nullptr) continue;
    EXPECT_TRUE(dense->update(std::vector<float>{1}, 0.1F));
    EXPECT_TRUE(dense->settle());
  }
  const auto after = device->counts();
  return {after.kernels + after.products - before.kernels - before.products,
          after.uploads + after.downloads - before.uploads - before.downloads,
          after.replays - before.replays};
}

TEST(StepOrders, StayInTheBudgetOfEveryTemplate) {
  for (const nn::TemplateNetwork& network : nn::template_networks()) {
    const std::string name = network.path.parent_path().filename() / network.path.stem().string();
    SCOPED_TRACE(name);
    const auto budget = kBudgets.find(name);
    ASSERT_NE(budget, kBudgets.end()) << "a template without a budget";
    const Orders found = orders_of_step(network);
    EXPECT_LE(found.kernels, budget->second.kernels);
    EXPECT_LE(found.copies, budget->second.copies);
    EXPECT_LE(found.graphs, budget->second.graphs);
  }
}

}  // namespace
}  // namespace paddle::trainer
