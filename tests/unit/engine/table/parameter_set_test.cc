#include "engine/table/parameter_set.h"

#include <cmath>

#include <gtest/gtest.h>

namespace paddle::parameter {
namespace {

wire::ParameterSet good_set() {
  wire::ParameterSet set;
  set.mutable_optimizer()->set_method("sgd");
  set.mutable_optimizer()->set_learning_rate(1);
  set.set_dense_shards(1);
  set.set_sparse_shards(1);
  wire::ParameterSpec& dense = *set.add_parameters();
  dense.set_name("_fc.w0");
  dense.add_dims(4);
  dense.add_dims(8);
  wire::ParameterSpec& sparse = *set.add_parameters();
  sparse.set_name("_proj");
  sparse.set_sparse(true);
  sparse.add_dims(0);
  sparse.add_dims(32);
  return set;
}

TEST(ParameterSetTest, CountsElementsAndRows) {
  const wire::ParameterSet set = good_set();
  ASSERT_TRUE(validate(set));
  EXPECT_EQ(element_count(set.parameters(0)), 32U);
  EXPECT_EQ(row_width(set.parameters(0)), 8U);
  EXPECT_EQ(row_width(set.parameters(1)), 32U);
}

TEST(ParameterSetTest, RefusesUnsafeNames) {
  for (const char* name : {"", "..", "a/b", "/a", "MANIFEST", "done", "w.state", "w.sparse-00000",
                           "w.tmp", "new\nline"}) {
    wire::ParameterSet set = good_set();
    set.mutable_parameters(0)->set_name(name);
    EXPECT_FALSE(validate(set)) << name;
  }
  wire::ParameterSet set = good_set();
  set.mutable_parameters(0)->set_name(std::string(kParameterNameBytesMax + 1, 'a'));
  EXPECT_FALSE(validate(set));
  set.mutable_parameters(0)->set_name("_proj");
  const Status twice = validate(set);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().message, "parameter '_proj': the name is used twice");
}

TEST(ParameterSetTest, RefusesToPlaceWhatIsNotThere) {
  wire::ParameterSet set = good_set();
  wire::PlacedParameter& placed = *set.mutable_partitioning()->add_placed();
  placed.set_parameter("_fc.w0");
  EXPECT_TRUE(validate(set));
  placed.set_port(1);
  const Status port = validate(set);
  ASSERT_FALSE(port);
  EXPECT_NE(port.error().message.find("there is no dense port 1, the job has 1"),
            std::string::npos);
  placed.set_port(0);
  placed.set_parameter("_proj");  // a table
  EXPECT_FALSE(validate(set));
  placed.set_parameter("_fc.w0");
  *set.mutable_partitioning()->add_placed() = placed;  // twice
  EXPECT_FALSE(validate(set));
}

TEST(ParameterSetTest, RefusesPoliciesThatNoTableHas) {
  const auto refused = [](auto change) {
    wire::ParameterSet set = good_set();
    wire::TablePolicy& policy = *set.mutable_parameters(1)->mutable_table();
    EXPECT_TRUE(validate(set));
    change(policy);
    return !validate(set);
  };
  EXPECT_TRUE(refused([](auto& policy) { policy.set_entry_count(kEntryCountMax + 1); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.set_expire_passes(kExpirePassesMax + 1); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.set_entry_probability(1.5F); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.set_entry_probability(NAN); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.add_entry()->set_entry_probability(-1); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.mutable_shrink()->set_decay(1.5F); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.mutable_shrink()->set_threshold(INFINITY); }));
  EXPECT_TRUE(refused([](auto& policy) { policy.set_evict(true); }));
  wire::ParameterSet set = good_set();
  set.mutable_parameters(0)->mutable_table();
  EXPECT_FALSE(validate(set)) << "a dense parameter has no policy";
}

TEST(ParameterSetTest, RefusesDimsThatOverflowOrAreEmpty) {
  wire::ParameterSet set = good_set();
  set.mutable_parameters(0)->set_dims(0, 1ULL << 62U);
  EXPECT_FALSE(validate(set));
  set.mutable_parameters(0)->set_dims(0, 0);
  EXPECT_FALSE(validate(set));
  set = good_set();
  set.mutable_parameters(1)->set_dims(0, 5);
  EXPECT_FALSE(validate(set));
  set.mutable_parameters(1)->set_dims(0, 0);
  set.mutable_parameters(1)->set_dims(1, kRowWidthMax + 1);
  EXPECT_FALSE(validate(set));
}

TEST(ParameterSetTest, RefusesMoreBlocksThanCanBePlaced) {
  wire::ParameterSet set = good_set();
  set.mutable_parameters(0)->set_dims(0, 1U << 30U);
  set.set_dense_shards(kShardsMax);
  set.set_min_block_size(1);
  const Status many = validate(set);
  ASSERT_FALSE(many);
  EXPECT_NE(many.error().message.find(set.parameters(0).name()), std::string::npos);
  EXPECT_NE(many.error().hint.find("min_block_size"), std::string::npos);
  set.mutable_partitioning()->set_whole(true);
  EXPECT_TRUE(validate(set));
}

TEST(ParameterSetTest, RefusesParametersWithoutAShard) {
  wire::ParameterSet set = good_set();
  set.set_sparse_shards(0);
  EXPECT_FALSE(validate(set));
  set.mutable_parameters()->RemoveLast();
  EXPECT_TRUE(validate(set));
  set.set_dense_shards(0);
  EXPECT_FALSE(validate(set));
}

}  // namespace
}  // namespace paddle::parameter
