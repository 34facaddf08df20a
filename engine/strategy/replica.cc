#include "engine/strategy/replica.h"

#include <algorithm>

#include "base/check.h"
#include "engine/table/parameter_set.h"

namespace paddle::strategy {
namespace {

// The set's optimizer without averages, which only the shards keep.
wire::Optimizer replica_optimizer(const wire::ParameterSet& set) {
  wire::Optimizer optimizer = set.optimizer();
  optimizer.clear_average();
  return optimizer;
}

optim::UpdateRule replica_rule(const wire::ParameterSet& set, std::uint32_t parameter) {
  wire::ParameterSpec spec = set.parameters(static_cast<int>(parameter));
  spec.clear_is_delta();
  return {replica_optimizer(set), spec};
}

// Returns -(x - y) * scale and subtracts it from y.
LargeArray<float> take_move(std::span<const float> x, std::span<float> y, float scale) {
  LargeArray<float> move(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    move[i] = (y[i] - x[i]) * scale;
    y[i] -= move[i];
  }
  return move;
}

optim::Progress begun_of(const client::ShardChannels& shards) {
  const client::JobProgress begun = shards.progress();
  return {begun.samples, begun.passes};
}

}  // namespace

float elastic_alpha(const wire::ParameterSet& set) {
  return set.elastic_rate() / static_cast<float>(set.num_trainers());
}

float averaging_scale(const wire::ParameterSet& set) {
  if (set.elastic_rate() == 0) return 1;
  return set.merge() == wire::MERGE_MEAN ? set.elastic_rate() : elastic_alpha(set);
}

DenseReplica::DenseReplica(const wire::ParameterSet& set, float scale, float elastic)
    : scale_(scale), elastic_(elastic) {
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(set.parameters_size()); ++i) {
    if (!set.parameters(static_cast<int>(i)).sparse()) {
      all_.push_back({i, replica_rule(set, i), {}, {}, {}, {}});
    }
  }
}

void DenseReplica::reset(std::span<const client::DenseParameter> values) {
  PADDLE_CHECK(values.size() == all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    One& one = all_[i];
    one.x = one.y = values[i].value;
    one.moves.clear();
    if (!one.state.empty()) continue;
    one.state.resize(one.x.size() * one.rule.state_width());
    one.rule.start(one.x, one.state);
  }
}

void DenseReplica::update(float learning_rate, std::span<client::DenseParameter> parameters) {
  PADDLE_CHECK(parameters.size() == all_.size());
  ++count_;
  for (std::size_t i = 0; i < all_.size(); ++i) {
    One& one = all_[i];
    if (one.rule.is_static()) continue;
    one.rule.apply(learning_rate, count_, one.x, parameters[i].gradient, one.state);
  }
  copy_to(parameters);
}

std::vector<client::DenseParameter> DenseReplica::take_moves() {
  std::vector<client::DenseParameter> moves;
  for (One& one : all_) {
    if (elastic_ > 0) {
      moves.push_back({one.parameter, {}, LargeArray<float>(one.x.size())});
      for (std::size_t i = 0; i < one.x.size(); ++i) {
        const float away = one.y[i] - one.x[i];
        moves.back().gradient[i] = away * scale_;
        one.x[i] += away * elastic_;
      }
      continue;
    }
    one.moves.push_back(take_move(one.x, one.y, scale_));
    moves.push_back({one.parameter, {}, one.moves.back()});
  }
  return moves;
}

void DenseReplica::on_center(std::span<const client::DenseParameter> values) {
  PADDLE_CHECK(values.size() == all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) all_[i].y = values[i].value;
}

void DenseReplica::on_values(std::span<const client::DenseParameter> values, std::size_t unseen) {
  PADDLE_CHECK(values.size() == all_.size());
  for (std::size_t i = 0; i < all_.size(); ++i) {
    One& one = all_[i];
    while (one.moves.size() > unseen) one.moves.pop_front();
    for (std::size_t e = 0; e < one.x.size(); ++e) {
      float known = values[i].value[e];
      for (const auto& move : one.moves) known -= move[e];
      one.x[e] += known - one.y[e];
      one.y[e] = known;
    }
  }
}

void DenseReplica::copy_to(std::span<client::DenseParameter> parameters) const {
  for (std::size_t i = 0; i < all_.size(); ++i) parameters[i].value = all_[i].x;
}

RowReplica::RowReplica(const wire::ParameterSet& set, std::uint32_t parameter, float scale)
    : parameter_(parameter),
      width_(parameter::row_width(set.parameters(static_cast<int>(parameter)))),
      scale_(scale),
      notes_(set.parameters(static_cast<int>(parameter)).table()),
      keeps_state_(optim::state_width(replica_optimizer(set)) > 0 ||
                   optim::counts_updates(replica_optimizer(set))),
      rule_(replica_rule(set, parameter)) {}

const RowReplica::Row* RowReplica::fresh(std::uint64_t id) const {
  const auto found = rows_.find(id);
  return found != rows_.end() && found->second.window == window_ ? &found->second : nullptr;
}

std::vector<std::uint64_t> RowReplica::missing(std::span<const std::uint64_t> ids) const {
  std::vector<std::uint64_t> result;
  for (const std::uint64_t id : ids) {
    if (fresh(id) == nullptr) result.push_back(id);
  }
  return result;
}

void RowReplica::put(const client::SparseRows& fetched) {
  PADDLE_CHECK(fetched.values.size() == fetched.ids.size() * width_);
  for (std::size_t i = 0; i < fetched.ids.size(); ++i) {
    Row& row = rows_[fetched.ids[i]];
    const auto value = std::span(fetched.values).subspan(i * width_, width_);
    row.window = window_;
    row.x.assign(value.begin(), value.end());
    row.y = row.x;
    row.notes.resize(notes_.size());
    notes_.start(row.notes.data());
    if (row.state.empty()) {
      row.state.resize(width_ * rule_.state_width());
      rule_.start(row.x, row.state);
    }
    ids_.push_back(fetched.ids[i]);
  }
}

void RowReplica::read(client::SparseRows& rows) const {
  rows.values.resize(rows.ids.size() * width_);
  for (std::size_t i = 0; i < rows.ids.size(); ++i) {
    const Row* const row = fresh(rows.ids[i]);
    PADDLE_CHECK(row != nullptr);
    std::copy_n(row->x.data(), width_, rows.values.data() + i * width_);
  }
}

void RowReplica::update(float learning_rate, const client::SparseRows& rows) {
  if (rule_.is_static()) return;
  for (std::size_t i = 0; i < rows.ids.size(); ++i) {
    PADDLE_CHECK(fresh(rows.ids[i]) != nullptr);
    Row& row = rows_.find(rows.ids[i])->second;
    rule_.apply(learning_rate, ++row.count, row.x,
                std::span(rows.gradients).subspan(i * width_, width_), row.state);
    notes_.add(row.notes.data(), rows.notes.data() + i * notes_.size());
  }
}

client::SparseRows RowReplica::take_moves() {
  std::sort(ids_.begin(), ids_.end());
  client::SparseRows moves;
  moves.parameter = parameter_;
  moves.ids = std::move(ids_);
  moves.gradients.reserve(moves.ids.size() * width_);
  for (const std::uint64_t id : moves.ids) {
    Row& row = rows_.find(id)->second;
    const auto move = take_move(row.x, row.y, scale_);
    moves.gradients.insert(moves.gradients.end(), move.begin(), move.end());
    moves.notes.insert(moves.notes.end(), row.notes.begin(), row.notes.end());
  }
  ids_.clear();
  ++window_;
  if (!keeps_state_) rows_.clear();
  return moves;
}

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
  if (totals.samples > 0) replica_.update(rate, parameters);  // else the batch was left out
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
