#include <gtest/gtest.h>

#include "engine/config/data_config.h"
#include "engine/nn/builder.h"
#include "engine/nn/network.h"
#include "tests/support/temporary_folder.h"

namespace paddle::nn {
namespace {

config::ParameterAttributes everything() {
  config::ParameterAttributes attributes;
  attributes.name = "table";
  attributes.initial_mean = 0.5F;
  attributes.initial_std = 0.25F;
  attributes.learning_rate = 3;
  attributes.l1 = 0.125F;
  attributes.l2 = 0.0F;
  attributes.clip_value = 5.0F;
  attributes.clip_norm = 6.0F;
  attributes.sparse = true;
  attributes.is_static = true;
  attributes.table.set_entry_count(7);
  attributes.table.set_entry_probability(0.75F);
  attributes.table.set_expire_passes(8);
  attributes.table.set_bytes_max(9000);
  attributes.table.set_evict(true);
  wire::SlotEntry& entry = *attributes.table.add_entry();
  entry.set_slot("C1");
  entry.set_entry_count(2);
  entry.set_entry_probability(0.5F);
  wire::ShrinkPolicy& shrink = *attributes.table.mutable_shrink();
  shrink.set_label("click");
  shrink.set_decay(0.9F);
  shrink.set_threshold(0.8F);
  shrink.set_nonclick_coefficient(0.2F);
  shrink.set_click_coefficient(2);
  return attributes;
}

TEST(ParameterList, ASpecHasEveryAttribute) {
  ParameterList list;
  ASSERT_EQ(list.declare({everything(), "unused", {0, 4}}, "words").value(), 0U);
  const wire::ParameterSpec spec = list.take().at(0);
  EXPECT_EQ(spec.name(), "table");
  EXPECT_EQ(spec.dims(1), 4U);
  EXPECT_EQ(spec.initial_mean(), 0.5F);
  EXPECT_EQ(spec.initial_std(), 0.25F);
  EXPECT_EQ(spec.learning_rate(), 3.0F);
  EXPECT_EQ(spec.l1(), 0.125F);
  EXPECT_TRUE(spec.has_l2());  // even 0 replaces the optimizer's
  EXPECT_EQ(spec.clip_value(), 5.0F);
  EXPECT_EQ(spec.clip_norm(), 6.0F);
  EXPECT_TRUE(spec.sparse());
  EXPECT_TRUE(spec.is_static());
  const wire::TablePolicy& policy = spec.table();
  EXPECT_EQ(policy.entry_count(), 7U);
  EXPECT_EQ(policy.entry_probability(), 0.75F);
  EXPECT_EQ(policy.expire_passes(), 8U);
  EXPECT_EQ(policy.bytes_max(), 9000U);
  EXPECT_TRUE(policy.evict());
  ASSERT_EQ(policy.entry_size(), 1);
  EXPECT_EQ(policy.entry(0).slot(), "C1");
  EXPECT_EQ(policy.entry(0).entry_count(), 2U);
  EXPECT_EQ(policy.entry(0).entry_probability(), 0.5F);
  EXPECT_EQ(policy.shrink().label(), "click");
  EXPECT_EQ(policy.shrink().decay(), 0.9F);
  EXPECT_EQ(policy.shrink().threshold(), 0.8F);
  EXPECT_EQ(policy.shrink().nonclick_coefficient(), 0.2F);
  EXPECT_EQ(policy.shrink().click_coefficient(), 2.0F);
}

TEST(ParameterList, WhatIsNotGivenHasADefault) {
  ParameterList list;
  const config::ParameterAttributes none;
  ASSERT_TRUE(list.declare({none, "_x.w0", {2, 3}, 0.5}, "x"));
  const wire::ParameterSpec spec = list.take().at(0);
  EXPECT_EQ(spec.name(), "_x.w0");
  EXPECT_EQ(spec.initial_std(), 0.5F);
  EXPECT_FALSE(spec.has_l1() || spec.has_l2() || spec.has_clip_value() || spec.has_clip_norm());
  EXPECT_FALSE(spec.has_table() || spec.is_static() || spec.sparse());
}

TEST(ParameterList, SharingNeedsTheSameAttributesOrNone) {
  ParameterList list;
  const config::ParameterAttributes first = everything();
  config::ParameterAttributes plain;
  plain.name = "table";
  plain.sparse = true;
  ASSERT_TRUE(list.declare({first, "", {0, 4}}, "a"));
  EXPECT_EQ(list.declare({first, "", {0, 4}}, "b").value(), 0U);
  EXPECT_EQ(list.declare({plain, "", {0, 4}}, "c").value(), 0U);
  auto other = first;
  other.table.mutable_shrink()->set_decay(0.95F);
  const auto refused = list.declare({other, "", {0, 4}}, "d");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "parameter 'table' has other attributes here than in layer 'a'");
  EXPECT_EQ(list.take().size(), 1U);
}

TEST(ParameterList, AVocabularyIsThatOfAllLayersThatShareTheTable) {
  ParameterList list;
  const config::ParameterAttributes none;
  ASSERT_TRUE(list.declare({none, "words", {0, 4}, 0.5, 20}, "a"));
  ASSERT_TRUE(list.declare({none, "words", {0, 4}, 0.5, 30}, "b"));
  ASSERT_TRUE(list.declare({none, "any", {0, 4}, 0.5, 20}, "c"));
  ASSERT_TRUE(list.declare({none, "any", {0, 4}, 0.5}, "d"));
  EXPECT_EQ(list.take_vocabularies(), (std::vector<std::uint64_t>{30, 0}));
}

// The same keys in [[table]] and in the weight of an embedding.
TEST(ParameterList, ATableOfAProgramIsThatOfAnEmbedding) {
  constexpr const char* kKeys =
      "initial_mean = 0.5, learning_rate = 3.0, l1 = 0.125, l2 = 0.0, clip_value = 5.0, "
      "clip_norm = 6.0, static = true, entry_count = 7, entry_probability = 0.75, "
      "expire_passes = 8, bytes_max = 9000, on_full = \"evict\", unseen = \"draw\"";
  const test::TemporaryFolder folder;
  for (const std::string& keys : {std::string(kKeys), std::string("initial_std = 0.01")}) {
    const auto network_job = config::read_job(
        folder.write("job.toml",
                     "[data]\ntrain = \"x\"\nformat = \"multislot\"\n[[data.slot]]\nname = \"id\"\n"
                     "type = \"id\"\n[[data.slot]]\nname = \"y\"\ntype = \"float\"\nwidth = 3\n"
                     "[[layer]]\nname = \"e\"\ntype = \"embedding\"\ninput = [\"id\"]\nsize = 3\n"
                     "weight = { name = \"user\", sparse = true, " +
                         keys +
                         " }\n"
                         "[[layer]]\nname = \"c\"\ntype = \"squared_error\"\ninput = [\"e\"]\n"
                         "label = \"y\"\n"));
    ASSERT_TRUE(network_job) << network_job.error().message;
    const auto network = Network::build(network_job->layers, config::data_slots(network_job->data));
    ASSERT_TRUE(network) << network.error().message;
    std::string lines = keys;
    for (auto at = lines.find(", "); at != lines.npos; at = lines.find(", "))
      lines.replace(at, 2, "\n");
    const auto tables =
        config::read_tables_job("", {}, "[[table]]\nname = \"user\"\nwidth = 3\n" + lines + "\n");
    ASSERT_TRUE(tables) << tables.error().message;
    ASSERT_EQ(network->parameters().size(), 1U);
    EXPECT_EQ(config::table_parameters(*tables).front().SerializeAsString(),
              network->parameters().front().SerializeAsString())
        << keys;
  }
}

}  // namespace
}  // namespace paddle::nn
