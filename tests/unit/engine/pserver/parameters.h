// A small parameter set for tests: one dense matrix, one vector, one table.
#pragma once

#include "proto/parameters.pb.h"

namespace paddle::test {

constexpr std::uint32_t kTable = 2;  // the index of small_set's table

inline wire::ParameterSet small_set(const std::string& method, std::uint32_t trainers,
                                    std::uint32_t dense_shards = 1,
                                    std::uint32_t sparse_shards = 1) {
  wire::ParameterSet set;
  set.mutable_optimizer()->set_method(method);
  set.mutable_optimizer()->set_learning_rate(0.1F);
  if (method == "momentum") set.mutable_optimizer()->set_momentum(0.9F);
  const auto add = [&](const std::string& name, std::uint64_t rows, std::uint64_t columns) {
    auto* const spec = set.add_parameters();
    spec->set_name(name);
    spec->add_dims(rows);
    spec->add_dims(columns);
    spec->set_sparse(rows == 0);
    spec->set_initial_std(0.5F);
    spec->set_learning_rate(1.0F);
    return spec;
  };
  add("fc.w", 6, 4)->set_l2(0.01F);
  add("fc.b", 1, 4);
  add("words", 0, 3)->set_learning_rate(0.5F);
  set.set_async_lagged_grad_discard_ratio(1.5F);
  set.set_seed(7);
  set.set_num_trainers(trainers);
  set.set_dense_shards(dense_shards);
  set.set_sparse_shards(sparse_shards);
  set.set_min_block_size(8);
  set.set_trainers_return(true);
  return set;
}

}  // namespace paddle::test
