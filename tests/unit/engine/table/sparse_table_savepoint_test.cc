// Savepoints of a sparse table that is trained on while they are taken, and tables restored from
// them.
#include "tests/unit/engine/table/table_savepoint_fixture.h"

namespace paddle::table {
namespace {

class SparseTableSavepoint : public testing::TestWithParam<SavepointCase> {};
INSTANTIATE_TEST_SUITE_P(
    Tables, SparseTableSavepoint,
    testing::Values(SavepointCase{"plain", "sgd"},
                    SavepointCase{"parallel", "adam", 0, 0, false, 0, true},
                    SavepointCase{"expires", "adagrad", 2}, SavepointCase{"waits", "adam", 2, 3},
                    SavepointCase{"shrinks", "sgd", 0, 0, true},
                    SavepointCase{"shrinks_and_expires", "adam", 3, 2, true, 0, true},
                    SavepointCase{"evicts", "adam", 0, 0, false, 1500},
                    SavepointCase{"evicts_and_expires", "adagrad", 1, 2, false, 2000, true}),
    [](const auto& one) { return one.param.name; });

TEST_P(SparseTableSavepoint, ChainsRestoreTheTableAsItWasAtEachSavepoint) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    SparseTable table = GetParam().table();
    SparseTable follows = GetParam().table();  // restored from each savepoint as it comes
    Parts chain;
    train(rng, table, 15);
    for (int savepoint = 0; savepoint < 8; ++savepoint) {
      table.begin_savepoint(savepoint == 0);
      if (rng.below(4) == 0) {  // it is dropped for another, whole or in part
        for (std::uint64_t i = rng.below(8); i > 0 && table.take_savepoint(2000); --i) {
          train(rng, table, 1);
        }
        if (rng.below(2) == 0) {
          ASSERT_TRUE(table.end_pass());
        }
        table.begin_savepoint(savepoint == 0);
      }
      const TableImage expected = image_of(table);
      const Parts parts = take_while_training(rng, table);
      table.end_savepoint();
      restore(parts, follows);
      ASSERT_TRUE(image_of(follows) == expected) << "savepoint " << savepoint;
      chain.insert(chain.end(), parts.begin(), parts.end());
      SparseTable anew = GetParam().table();
      restore(chain, anew);
      ASSERT_TRUE(image_of(anew) == expected) << "savepoint " << savepoint;
      train(rng, table, rng.below(6));
      if (rng.below(3) == 0) {
        ASSERT_TRUE(table.end_pass());
      }
    }
  }
}

TEST_P(SparseTableSavepoint, ARestoredTableGoesOnAsTheOneThatWasSaved) {
  Rng rng(77);
  SparseTable table = GetParam().table();
  Parts chain;
  for (int savepoint = 0; savepoint < 4; ++savepoint) {
    train(rng, table, 12);
    ASSERT_TRUE(table.end_pass());
    train(rng, table, 5);
    table.begin_savepoint(savepoint == 0);
    while (const auto part = table.take_savepoint(30'000)) chain.push_back(*part);
    std::erase_if(chain, [](const Bytes& part) { return part.empty(); });
    table.end_savepoint();
  }
  SparseTable restored = GetParam().table();
  restore(chain, restored);
  table.take_evicted();
  table.take_shrunk();
  restored.take_evicted();
  for (int step = 0; step < 60; ++step) {
    const Push push = random_push(rng, table);
    push.apply_to(table);
    push.apply_to(restored);
    if (step % 20 == 19) {
      ASSERT_EQ(*table.end_pass(), *restored.end_pass());
    }
    ASSERT_EQ(table.take_evicted(), restored.take_evicted());
    ASSERT_EQ(table.take_shrunk(), restored.take_shrunk());
  }
  ASSERT_TRUE(image_of(table) == image_of(restored));
}

// The next savepoint of a restored table builds on the one that it was restored from.
TEST_P(SparseTableSavepoint, SavepointsOfARestoredTableContinueTheChain) {
  Rng rng(5);
  SparseTable table = GetParam().table();
  train(rng, table, 20);
  table.begin_savepoint(true);
  Parts chain = take_while_training(rng, table);
  table.end_savepoint();
  SparseTable restored = GetParam().table();
  restore(chain, restored);
  train(rng, restored, 1);
  ASSERT_TRUE(restored.end_pass());
  restored.begin_savepoint(false);
  const TableImage expected = image_of(restored);
  const Parts next = take_while_training(rng, restored);
  restored.end_savepoint();
  chain.insert(chain.end(), next.begin(), next.end());
  SparseTable again = GetParam().table();
  restore(chain, again);
  EXPECT_TRUE(image_of(again) == expected);
}

}  // namespace
}  // namespace paddle::table
