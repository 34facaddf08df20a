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

}  // namespace

DenseReplica::DenseReplica(const wire::ParameterSet& set, float scale) : scale_(scale) {
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
    one.moves.push_back(take_move(one.x, one.y, scale_));
    moves.push_back({one.parameter, {}, one.moves.back()});
  }
  return moves;
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
  const std::span<float> values = rows.make_values(width_);
  for (std::size_t i = 0; i < rows.ids.size(); ++i) {
    const Row* const row = fresh(rows.ids[i]);
    PADDLE_CHECK(row != nullptr);
    std::copy_n(row->x.data(), width_, values.data() + i * width_);
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

}  // namespace paddle::strategy
