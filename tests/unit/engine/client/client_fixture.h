// Clients of real shards in this process, and the same job without any.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "engine/client/shard_client.h"
#include "engine/math/initial.h"
#include "engine/math/optimizer.h"
#include "engine/math/schedule.h"
#include "engine/net/local_link.h"
#include "engine/pserver/shard.h"
#include "engine/strategy/strategy_table.h"
#include "engine/table/parameter_set.h"
#include "tests/unit/engine/pserver/parameters.h"

namespace paddle::client {

inline std::unique_ptr<net::Link> local_shard(std::uint32_t index, bool is_sparse,
                                              std::shared_ptr<parameter::RowLoan> loan = nullptr) {
  auto shard = std::make_shared<pserver::Shard>(
      pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                            .index = index,
                            .is_sparse = is_sparse,
                            .server_generation = 3,
                            .row_loan = std::move(loan)});
  return net::make_local_link(std::move(shard), {Role::kTrainer, 0});
}

using Work = std::function<void(std::size_t)>;

inline std::unique_ptr<ShardChannels> channels_of(const wire::ParameterSet& set,
                                                  ChannelOptions options = {}) {
  options.parameters = set;
  ShardChannels::Links dense;
  ShardChannels::Links sparse;
  for (std::uint32_t i = 0; i < set.dense_shards(); ++i) dense.push_back(local_shard(i, false));
  for (std::uint32_t i = 0; i < set.sparse_shards(); ++i) sparse.push_back(local_shard(i, true));
  auto shards = ShardChannels::join(std::move(options), std::move(dense), std::move(sparse));
  EXPECT_TRUE(shards) << shards.error().message;
  return shards ? *std::move(shards) : nullptr;
}

// Follows the strategies of the set.
inline std::unique_ptr<ParameterClient> client_of(const wire::ParameterSet& set,
                                                  ChannelOptions options = {},
                                                  const strategy::PathOptions& paths = {}) {
  return strategy::make_client(channels_of(set, std::move(options)), paths);
}

constexpr std::uint64_t kSamples = 4;  // of each push

// An optimizer with momentum, L1, clipping, a schedule and averages.
inline wire::ParameterSet full_set(const std::string& method, std::uint32_t dense_shards = 1,
                                   std::uint32_t sparse_shards = 1) {
  auto set = test::small_set(method, 1, dense_shards, sparse_shards);
  wire::Optimizer& optimizer = *set.mutable_optimizer();
  optimizer.set_momentum(0.5F);
  optimizer.set_l1(1e-4F);
  optimizer.set_clip_value(1);
  optimizer.mutable_schedule()->set_name("poly");
  optimizer.mutable_schedule()->set_a(0.1);
  optimizer.mutable_schedule()->set_b(0.5);
  optimizer.mutable_schedule()->set_warmup_samples(9);
  optimizer.mutable_average()->set_window(0.5F);
  optimizer.mutable_average()->set_window_min(2);
  return set;
}

// The same job without any pserver.
struct Direct {
  explicit Direct(const wire::ParameterSet& parameters) : set(parameters) {
    for (int i = 0; i < 2; ++i) {
      dense[i].resize(parameter::element_count(set.parameters(i)));
      optim::fill_initial(dense[i], set.parameters(i), set.seed(), 0);
      dense_state[i].resize(dense[i].size() * optim::state_width(set.optimizer()));
      rule(i).start(dense[i], dense_state[i]);
    }
    row.resize(3);
    optim::fill_initial_row(row, set.parameters(2), set.seed(), 99);
    row_state.resize(3 * optim::state_width(set.optimizer()));
    rule(2).start(row, row_state);
  }
  optim::UpdateRule rule(int parameter) const {
    return {set.optimizer(), set.parameters(parameter)};
  }
  void step(std::uint64_t count, std::span<const DenseParameter> gradients,
            std::span<const float> row_gradient) {
    const float rate = optim::learning_rate(set.optimizer(), {count * kSamples, 0});
    for (int i = 0; i < 2; ++i) {
      rule(i).apply(rate, count, dense[i], gradients[static_cast<std::size_t>(i)].gradient,
                    dense_state[i]);
    }
    rule(2).apply(rate, count, row, row_gradient, row_state);
  }
  wire::ParameterSet set;
  LargeArray<float> dense[2];
  std::vector<float> dense_state[2];
  std::vector<float> row;
  std::vector<float> row_state;
};

inline LargeArray<float> copied(const DenseParameter& parameter) {
  return {parameter.values().begin(), parameter.values().end()};
}

// Runs steps [from, to] of a made-up job, whose gradients depend on the step alone. Compares with
// `direct` if not null.
inline void run_steps(ParameterClient& client, int from, int to, std::vector<DenseParameter>& dense,
                      std::vector<SparseRows>& rows, Direct* direct) {
  for (int step = from; step <= to; ++step) {
    for (DenseParameter& parameter : dense) {
      parameter.gradient.resize(parameter.parameter == 0 ? 24 : 4);
      for (std::size_t i = 0; i < parameter.gradient.size(); ++i) {
        parameter.gradient[i] = 0.37F * static_cast<float>(step) - 0.11F * static_cast<float>(i);
      }
    }
    ASSERT_TRUE(client.pull_rows(rows));
    if (direct != nullptr) {
      EXPECT_EQ(std::vector<float>(rows[0].values.begin() + 3, rows[0].values.begin() + 6),
                direct->row);
    }
    rows[0].gradients.assign(rows[0].ids.size() * 3, 0.01F * static_cast<float>(step));
    ASSERT_TRUE(client.push(kSamples, 2.5, dense, rows));
    if (direct == nullptr) continue;
    direct->step(static_cast<std::uint64_t>(step), dense,
                 std::span<const float>(rows[0].gradients).subspan(3, 3));
    EXPECT_EQ(copied(dense[0]), direct->dense[0]);
    EXPECT_EQ(copied(dense[1]), direct->dense[1]);
  }
}

inline std::vector<DenseParameter> dense_parameters() {
  return {{0, {}, {}}, {1, {}, {}}};
}

inline std::vector<SparseRows> some_rows() {
  return {{2, {5, 99, 1ULL << 63U, ~0ULL}, {}, {}}};
}

}  // namespace paddle::client
