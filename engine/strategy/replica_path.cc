#include "engine/strategy/replica_path.h"

#include "base/check.h"

namespace paddle::strategy {
namespace {

optim::Progress begun_of(const client::ShardChannels& shards) {
  const client::JobProgress begun = shards.progress();
  return {begun.samples, begun.passes};
}

}  // namespace

float ReplicaWindow::add(const client::PushTotals& totals, const optim::Progress& begun) {
  pass_samples_ += totals.samples;
  totals_.batches += totals.batches;
  totals_.samples += totals.samples;
  totals_.cost += totals.cost;
  return optim::learning_rate(set_.optimizer(),
                              {begun.samples + pass_samples_ * set_.num_trainers(), begun.pass});
}

client::PushTotals ReplicaWindow::take() {
  return std::exchange(totals_, client::PushTotals{0, 0, 0});
}

void ReplicaWindow::end_pass(client::PassEnd end) {
  if (end == client::PassEnd::kFinish) pass_samples_ = 0;
}

Status ReplicaDensePath::pull(std::span<client::DenseParameter> parameters) {
  if (!replica_.is_empty()) {
    replica_.copy_to(parameters);
    return {};
  }
  PADDLE_TRY_STATUS(shards_.pull(parameters));
  replica_.reset(parameters);
  return {};
}

Status ReplicaDensePath::push(const client::PushTotals& totals,
                              std::span<client::DenseParameter> parameters) {
  const float rate = window_.add(totals, begun_of(shards_));
  if (totals.samples > 0) replica_.update(rate, parameters);  // else it was left out
  if (!window_.is_full()) return {};
  PADDLE_TRY_STATUS(exchange(window_.take(), replica_.take_moves()));
  replica_.copy_to(parameters);
  return {};
}

Status ReplicaDensePath::end_pass(client::PassEnd end) {
  if (!window_.is_empty()) {
    PADDLE_TRY_STATUS(exchange(window_.take(), replica_.take_moves()));
  }
  window_.end_pass(end);
  return settle();
}

ReplicaRowsPath::ReplicaRowsPath(client::ShardChannels& shards, float scale)
    : Path(shards), window_(shards.parameters()) {
  const wire::ParameterSet& set = shards.parameters();
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(set.parameters_size()); ++i) {
    if (set.parameters(static_cast<int>(i)).sparse()) tables_.emplace_back(set, i, scale);
  }
}

Status ReplicaRowsPath::pull(std::span<client::SparseRows> rows) {
  PADDLE_CHECK(rows.size() == tables_.size());
  std::vector<client::SparseRows> missing(rows.size());
  bool is_any = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    missing[i].parameter = rows[i].parameter;
    missing[i].ids = tables_[i].missing(rows[i].ids);
    is_any = is_any || !missing[i].ids.empty();
  }
  if (is_any) PADDLE_TRY_STATUS(fetch(missing));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_any) tables_[i].put(missing[i]);
    tables_[i].read(rows[i]);
  }
  return {};
}

Status ReplicaRowsPath::push(const client::PushTotals& totals, std::span<client::SparseRows> rows) {
  const float rate = window_.add(totals, begun_of(shards_));
  for (std::size_t i = 0; i < rows.size() && totals.samples > 0; ++i)
    tables_[i].update(rate, rows[i]);
  return window_.is_full() ? push_window() : Status();
}

Status ReplicaRowsPath::push_window() {
  std::vector<client::SparseRows> moves;
  for (RowReplica& table : tables_) moves.push_back(table.take_moves());
  return exchange(window_.take(), moves);
}

Status ReplicaRowsPath::end_pass(client::PassEnd end) {
  if (!window_.is_empty()) PADDLE_TRY_STATUS(push_window());
  window_.end_pass(end);
  return settle();
}

}  // namespace paddle::strategy
