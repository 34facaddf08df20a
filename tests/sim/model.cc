#include "tests/sim/model.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/check.h"
#include "base/rng.h"
#include "engine/strategy/strategy_table.h"
#include "engine/table/partition.h"

namespace paddle::sim {
namespace {

constexpr std::uint64_t kSharedSize = 12;

}  // namespace

Model::Model(const ClusterOptions& options)
    : batches_(options.batches),
      pservers_(options.pservers),
      passes_(options.passes),
      dense_in_rounds_(options.strategy == wire::STRATEGY_SYNC),
      rows_in_rounds_(options.sparse_strategy.value_or(options.strategy) == wire::STRATEGY_SYNC),
      has_windows_(options.strategy == wire::STRATEGY_HALF_ASYNC ||
                   options.strategy == wire::STRATEGY_GEO) {
  for (const std::uint32_t count : batches_) {
    first_cells_.push_back(passes_of_.size());
    batches_of_pass_ += count;
    for (std::uint32_t pass = 0; pass < options.passes; ++pass) {
      passes_of_.insert(passes_of_.end(), count, pass);
    }
  }
  row_ids_.resize(pservers_);
  for (std::uint64_t id = 0, port = 0; port < pservers_; ++port) {
    while (row_ids_[port].size() <= cells()) {
      if (parameter::sparse_shard(mix64(++id), pservers_) == port) {
        row_ids_[port].push_back(mix64(id));
      }
    }
  }
  create_steps(options.passes);
  create_set(options);
  layout_ = client::dense_layout(set_);
}

void Model::create_steps(std::uint32_t passes) {
  const std::uint32_t rounds = batches_.empty() ? 0 : *std::ranges::max_element(batches_);
  for (std::uint32_t pass = 0; pass < passes; ++pass) {
    for (std::uint32_t batch = 0; batch < rounds; ++batch) {
      auto& cells = cells_of_step_.emplace_back();
      for (std::uint32_t id = 0; id < batches_.size(); ++id) {
        if (batches_[id] > batch) cells.push_back(cell(id, pass, batch));
      }
    }
  }
}

void Model::create_set(const ClusterOptions& options) {
  const auto add = [&](const std::string& name, std::uint64_t rows) {
    auto* const spec = set_.add_parameters();
    spec->set_name(name);
    spec->add_dims(rows);
    spec->add_dims(1);
    spec->set_sparse(rows == 0);
    spec->set_learning_rate(1);
    return spec;
  };
  auto& partitioning = *set_.mutable_partitioning();
  partitioning.set_whole(true);
  partitioning.set_placement(wire::PLACEMENT_EXPLICIT);
  for (const auto& [prefix, size] :
       {std::pair("ledger", cells()), std::pair("shared", kSharedSize)}) {
    for (std::uint32_t port = 0; port < pservers_; ++port) {
      auto* const placed = partitioning.add_placed();
      placed->set_parameter(add(fmt::format("{}-{}", prefix, port), size)->name());
      placed->set_port(port);
    }
  }
  add("rows", 0);
  set_.mutable_optimizer()->set_method("sgd");
  set_.mutable_optimizer()->set_learning_rate(1);
  if (options.strategy == wire::STRATEGY_GEO) {
    set_.mutable_optimizer()->set_method("adagrad");  // the shards must not use it
    for (auto& spec : *set_.mutable_parameters()) spec.set_is_delta(true);
  }
  set_.set_dense_strategy(options.strategy);
  set_.set_sparse_strategy(options.sparse_strategy.value_or(options.strategy));
  set_.set_async_lagged_grad_discard_ratio(1e9F);
  if (has_windows_) set_.set_merge(wire::MERGE_SUM);  // the ledger's ones stay ones
  if (options.staleness_max) set_.set_staleness_max(*options.staleness_max);
  set_.set_num_trainers(static_cast<std::uint32_t>(batches_.size()));
  set_.set_dense_shards(pservers_);
  set_.set_sparse_shards(pservers_);
  set_.set_min_block_size(1);
  set_.set_node_groups(options.node_groups);
  set_.set_trainers_return(strategy::trainers_return(set_));
  set_.set_snapshot_seconds(options.snapshot_seconds);
}

std::uint64_t Model::cell(std::uint32_t trainer, std::uint64_t pass, std::uint64_t batch) const {
  return first_cells_[trainer] + pass * batches_[trainer] + batch;
}

const std::vector<std::uint64_t>& Model::cells_of_step(std::uint64_t step) const {
  PADDLE_CHECK(step >= 1 && step <= cells_of_step_.size());
  return cells_of_step_[step - 1];
}

// A round takes the mean over the trainers that still have data: a gradient of minus their number
// adds exactly 1.
Gradients Model::gradients(std::uint32_t trainer, std::uint64_t pass, std::uint64_t batch,
                           std::span<const std::vector<float>> values) const {
  const std::uint64_t mine = cell(trainer, pass, batch);
  const auto contributors = std::ranges::count_if(batches_, [&](auto n) { return n > batch; });
  const auto one = [&](bool in_rounds) {
    return in_rounds ? -static_cast<float>(contributors) : -1.0F;
  };
  Gradients all{1, 1, {}, {rows_parameter(), {}, {}, {}, {}}};
  for (std::uint32_t port = 0; port < pservers_; ++port) {
    all.dense.push_back({port, {}, LargeArray<float>(cells(), 0.0F)});
    all.dense.back().gradient[mine] = one(dense_in_rounds_);
  }
  Rng noise(hash_combine(trainer, mine));
  std::map<std::uint64_t, float> rows;
  for (std::uint32_t port = 0; port < pservers_; ++port) {
    all.dense.push_back({pservers_ + port, {}, LargeArray<float>(kSharedSize, 0.0F)});
    // The values of all ports: values of different steps make other bits.
    const std::uint32_t next = (port + 1) % pservers_;
    const auto seen = shared(port, values[port]);
    const auto beside = shared(next, values[next]);
    for (std::size_t i = 0; i < kSharedSize; ++i) {
      all.dense.back().gradient[i] =
          0.2F * seen[i] + 0.1F * beside[i] + static_cast<float>(noise.uniform()) - 0.5F;
    }
    rows[row_ids_[port][mine]] = one(rows_in_rounds_);
    rows[row_ids_[port].back()] = static_cast<float>(noise.uniform()) - 0.5F;
  }
  for (const auto& [id, gradient] : rows) {
    all.rows.ids.push_back(id);
    all.rows.gradients.push_back(gradient);
  }
  return all;
}

std::span<const float> Model::piece(std::uint32_t shard, std::uint32_t parameter,
                                    std::span<const float> values) const {
  for (const client::DensePiece& piece : layout_.pieces[shard]) {
    if (piece.parameter == parameter) return values.subspan(piece.offset, piece.size);
  }
  return {};
}

std::span<const float> Model::ledger(std::uint32_t shard, std::span<const float> values) const {
  return piece(shard, shard, values);
}

std::span<const float> Model::shared(std::uint32_t shard, std::span<const float> values) const {
  return piece(shard, pservers_ + shard, values);
}

}  // namespace paddle::sim
