#include "tests/sim/scale/model.h"

#include "base/rng.h"
#include "engine/strategy/strategy_table.h"
#include "engine/table/partition.h"

namespace paddle::sim {
namespace {

// Small enough that some batches of 4,096 trainers add up exactly.
float whole_number(std::uint32_t port, std::uint32_t trainer, std::uint32_t batch,
                   std::uint64_t number) {
  const std::uint64_t where = hash_combine((std::uint64_t{port} << 32U) | trainer, batch);
  return static_cast<float>(hash_combine(where, number) % 7) - 3.0F;
}

}  // namespace

ScaledModel::ScaledModel(const ScaleOptions& options) : ids_(options.pservers) {
  const std::size_t rows = 1 + std::size_t{options.trainers};
  std::uint32_t missing = options.pservers;
  for (std::uint64_t next = 0; missing > 0; ++next) {
    const std::uint64_t id = mix64(next);
    auto& ids = ids_[parameter::sparse_shard(id, options.pservers)];
    if (ids.size() == rows) continue;
    ids.push_back(id);
    if (ids.size() == rows) --missing;
  }
  create_set(options);
  set_text_ = set_.SerializeAsString();
}

void ScaledModel::create_set(const ScaleOptions& options) {
  const auto add = [&](const char* name, std::uint64_t rows, std::uint64_t width) {
    auto& spec = *set_.add_parameters();
    spec.set_name(name);
    spec.set_sparse(rows == 0);
    spec.add_dims(rows);
    spec.add_dims(width);
    spec.set_learning_rate(1);
  };
  if (options.has_sparse) add("table", 0, kRowWidth);
  if (options.has_dense) add("dense", options.pservers, kDenseOfPort);  // a block for each port
  set_.set_min_block_size(kDenseOfPort);
  set_.mutable_optimizer()->set_method("sgd");
  set_.mutable_optimizer()->set_learning_rate(1);
  set_.set_merge(wire::MERGE_SUM);
  set_.set_dense_strategy(options.strategy);
  set_.set_sparse_strategy(options.strategy);
  set_.set_async_lagged_grad_discard_ratio(1e9F);
  set_.set_num_trainers(options.trainers);
  set_.set_dense_shards(options.has_dense ? options.pservers : 0);
  set_.set_sparse_shards(options.has_sparse ? options.pservers : 0);
  set_.set_trainers_return(strategy::trainers_return(set_));
}

std::array<std::size_t, kRowsOfPush> ScaledModel::rows_of(std::uint32_t port,
                                                          std::uint32_t trainer) const {
  const std::size_t own = 1 + std::size_t{trainer};
  if (id_of(port, own) < id_of(port, 0)) return {own, 0};
  return {0, own};
}

DenseValues ScaledModel::dense_gradient(std::uint32_t port, std::uint32_t trainer,
                                        std::uint32_t batch, const DenseValues& seen,
                                        const DenseValues& beside) const {
  DenseValues gradient{};
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    const auto both = static_cast<std::int64_t>(seen[i]) + static_cast<std::int64_t>(beside[i]);
    gradient[i] = whole_number(port, trainer, batch, i) + static_cast<float>(both % 3);
  }
  return gradient;
}

RowGradients ScaledModel::row_gradients(std::uint32_t port, std::uint32_t trainer,
                                        std::uint32_t batch) const {
  RowGradients gradients{};
  std::uint64_t number = kDenseOfPort;
  for (RowValues& row : gradients) {
    for (float& value : row) value = whole_number(port, trainer, batch, number++);
  }
  return gradients;
}

}  // namespace paddle::sim
