#include "engine/strategy/replica.h"

#include <gtest/gtest.h>

namespace paddle::strategy {
namespace {

wire::ParameterSet set_of(const std::string& method) {
  wire::ParameterSet set;
  set.mutable_optimizer()->set_method(method);
  set.mutable_optimizer()->set_learning_rate(1);
  if (method == "momentum") set.mutable_optimizer()->set_momentum(0.5F);
  for (const bool is_sparse : {false, true}) {
    auto* const spec = set.add_parameters();
    spec->set_name(is_sparse ? "rows" : "dense");
    spec->add_dims(is_sparse ? 0 : 1);
    spec->add_dims(2);
    spec->set_sparse(is_sparse);
    spec->set_learning_rate(1);
    spec->set_is_delta(true);  // for the shards, not for the trainer
  }
  return set;
}

// A shard that subtracts what is pushed.
struct Server {
  LargeArray<float> values;
  void push(std::span<const client::DenseParameter> moves) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= moves[0].gradient[i];
  }
  std::vector<client::DenseParameter> pull() const { return {{0, values, {}}}; }
};

void step(DenseReplica& local, LargeArray<float> gradient, LargeArray<float>& x) {
  client::DenseParameter parameter{0, {}, std::move(gradient)};
  local.update(1, {&parameter, 1});
  x = parameter.value;
}

// Trap 1: after a round the shards hold the mean of the trainers' copies, and after rounds without
// moves all copies are equal.
TEST(DenseReplica, Trap01ShardsHoldTheMeanOfTheMovesAndAQuietRoundMakesAllEqual) {
  for (const bool identical : {true, false}) {
    const auto set = set_of("sgd");
    Server server{{8, 8}};
    DenseReplica a(set, 0.5F);
    DenseReplica b(set, 0.5F);
    a.reset(server.pull());
    b.reset(server.pull());
    LargeArray<float> x_a;
    LargeArray<float> x_b;
    for (int i = 0; i < 2; ++i) {
      step(a, {1, 2}, x_a);
      step(b, identical ? LargeArray<float>{1, 2} : LargeArray<float>{-3, 0}, x_b);
    }
    EXPECT_EQ(x_a, (LargeArray<float>{6, 4}));
    server.push(a.take_moves());
    server.push(b.take_moves());
    EXPECT_EQ(server.values, identical ? (LargeArray<float>{6, 4}) : (LargeArray<float>{10, 6}));
    for (DenseReplica* trainer : {&a, &b}) trainer->on_values(server.pull(), 0);
    for (int quiet = 0; quiet < 30; ++quiet) {  // halves the part of a move that was not pushed
      for (DenseReplica* trainer : {&a, &b}) server.push(trainer->take_moves());
      for (DenseReplica* trainer : {&a, &b}) trainer->on_values(server.pull(), 0);
    }
    step(a, {0, 0}, x_a);
    step(b, {0, 0}, x_b);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_NEAR(x_a[i], server.values[i], 1e-5);
      EXPECT_NEAR(x_b[i], server.values[i], 1e-5);
    }
  }
}

TEST(DenseReplica, AnAnswerThatHasNotSeenTheNewestMoveDoesNotUndoIt) {
  Server server{{0, 0}};
  DenseReplica local(set_of("sgd"), 1);
  local.reset(server.pull());
  LargeArray<float> x;
  step(local, {-1, -1}, x);
  server.push(local.take_moves());
  const auto first = server.pull();
  step(local, {-1, -1}, x);
  const auto second = local.take_moves();
  server.push(second);
  server.values[0] += 5;  // another trainer's, which `first` has not seen either
  local.on_values(first, 1);
  step(local, {0, 0}, x);
  EXPECT_EQ(x, (LargeArray<float>{2, 2}));
  local.on_values(server.pull(), 0);
  step(local, {0, 0}, x);
  EXPECT_EQ(x, (LargeArray<float>{7, 2}));
}

client::SparseRows rows_of(std::vector<std::uint64_t> ids, std::vector<float> values,
                           std::vector<float> gradients) {
  return {1, std::move(ids), std::move(values), std::move(gradients)};
}

// Trap 1: rows are fetched again after each push, so a trainer sees the others' updates of a row
// that it left alone for long.
TEST(RowReplica, Trap01RowsAreFetchedOnceAWindowAndOnlyTheyArePushed) {
  RowReplica table(set_of("sgd"), 1, 0.5F);
  EXPECT_EQ(table.missing(std::vector<std::uint64_t>{3, 9}), (std::vector<std::uint64_t>{3, 9}));
  table.put(rows_of({3, 9}, {1, 1, 2, 2}, {}));
  table.put(rows_of({5}, {0, 0}, {}));
  EXPECT_TRUE(table.missing(std::vector<std::uint64_t>{3, 5, 9}).empty());
  table.update(1, rows_of({3}, {}, {1, -1}));
  client::SparseRows seen = rows_of({3, 9}, {}, {});
  table.read(seen);
  EXPECT_EQ(seen.values, (std::vector<float>{0, 2, 2, 2}));
  std::vector<float> place(4);
  client::SparseRows placed = rows_of({3, 9}, {}, {});
  placed.placed_values = place;
  table.read(placed);
  EXPECT_EQ(place, seen.values);
  const client::SparseRows moves = table.take_moves();
  EXPECT_EQ(moves.ids, (std::vector<std::uint64_t>{3, 5, 9}));
  EXPECT_EQ(moves.gradients, (std::vector<float>{0.5F, -0.5F, 0, 0, 0, 0}));
  EXPECT_EQ(table.missing(std::vector<std::uint64_t>{3}), (std::vector<std::uint64_t>{3}));
  table.put(rows_of({3}, {7, 7}, {}));
  seen = rows_of({3}, {}, {});
  table.read(seen);
  EXPECT_EQ(seen.values, (std::vector<float>{7, 7}));
}

TEST(RowReplica, NotesAddUpUntilTheNextPush) {
  auto set = set_of("sgd");
  set.mutable_parameters(1)->mutable_table()->mutable_shrink()->set_decay(1);
  RowReplica table(set, 1, 0.5F);
  table.put(rows_of({3, 9}, {1, 1, 2, 2}, {}));
  client::SparseRows batch = rows_of({3}, {}, {1, -1});
  batch.notes = {2, 1};
  table.update(1, batch);
  table.update(1, batch);
  EXPECT_EQ(table.take_moves().notes, (std::vector<float>{4, 2, 0, 0}));
  table.put(rows_of({3}, {1, 1}, {}));
  EXPECT_EQ(table.take_moves().notes, (std::vector<float>{0, 0}));
}

TEST(RowReplica, TheOptimizersStateStaysWithTheTrainer) {
  RowReplica table(set_of("momentum"), 1, 1);
  table.put(rows_of({3}, {0, 0}, {}));
  table.update(1, rows_of({3}, {}, {-4, 0}));  // m = 4
  table.take_moves();
  table.put(rows_of({3}, {4, 0}, {}));
  table.update(1, rows_of({3}, {}, {0, 0}));  // m = 2
  client::SparseRows seen = rows_of({3}, {}, {});
  table.read(seen);
  EXPECT_EQ(seen.values, (std::vector<float>{6, 0}));
}

}  // namespace
}  // namespace paddle::strategy
