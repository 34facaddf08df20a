#include "engine/strategy/local.h"

#include <algorithm>

#include "base/check.h"
#include "engine/optim/schedule.h"
#include "engine/strategy/local_updates.h"
#include "engine/strategy/sender.h"

namespace paddle::strategy {
namespace {

bool is_local(wire::Strategy strategy) {
  return strategy == wire::STRATEGY_GEO || strategy == wire::STRATEGY_LOCAL_SGD;
}

float share_of(const wire::ParameterSet& set, wire::Strategy strategy) {
  const bool is_divided = strategy == wire::STRATEGY_GEO && set.merge() == wire::MERGE_MEAN;
  return is_divided ? 1.0F / static_cast<float>(set.num_trainers()) : 1.0F;
}

// Elastic averaging: a round adds beta times the mean of the trainers' distances to the center, or
// alpha = beta / trainers times their sum.
float elastic_alpha(const wire::ParameterSet& set) {
  return set.elastic_rate() / static_cast<float>(set.num_trainers());
}

float dense_share(const wire::ParameterSet& set) {
  if (set.elastic_rate() == 0) return share_of(set, set.dense_strategy());
  return set.merge() == wire::MERGE_MEAN ? set.elastic_rate() : elastic_alpha(set);
}

class LocalClient final : public client::ParameterClient {
 public:
  LocalClient(std::unique_ptr<client::ParameterClient> direct, const LocalOptions& options)
      : set_(options.set),
        direct_(std::move(direct)),
        has_dense_(is_local(set_.dense_strategy()) && set_.dense_shards() > 0),
        has_rows_(is_local(set_.sparse_strategy()) && set_.sparse_shards() > 0),
        dense_(set_, dense_share(set_), elastic_alpha(set_)) {
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(set_.parameters_size()); ++i) {
      if (set_.parameters(static_cast<int>(i)).sparse()) {
        tables_.emplace_back(set_, i, share_of(set_, set_.sparse_strategy()));
      }
    }
    const Communicator::Options one_window;
    if (has_dense_ && set_.dense_strategy() == wire::STRATEGY_GEO) {
      dense_sender_ = std::make_unique<Sender>(
          one_window, [this](const Window& window) -> Result<std::vector<client::DenseParameter>> {
            std::vector<client::DenseParameter> moves = window.dense;
            PADDLE_TRY_STATUS(
                direct_->push_dense({window.batches, window.samples, window.cost}, moves));
            return moves;
          });
    }
    if (has_rows_ && set_.sparse_strategy() == wire::STRATEGY_GEO) {
      rows_sender_ = std::make_unique<Sender>(
          one_window, [this](const Window& window) -> Result<std::vector<client::DenseParameter>> {
            std::vector<client::SparseRows> moves = window.rows;
            PADDLE_TRY_STATUS(
                direct_->push_rows({window.batches, window.samples, window.cost}, moves));
            return std::vector<client::DenseParameter>();
          });
    }
  }

  Status load_snapshot(const std::string& directory) override {
    return direct_->load_snapshot(directory);
  }
  Status resume(const std::string& directory) override { return direct_->resume(directory); }
  void ask_to_stop() override { direct_->ask_to_stop(); }
  bool stop_asked() const override { return direct_->stop_asked(); }
  Status ready() override { return direct_->ready(); }
  client::JobProgress progress() const override { return direct_->progress(); }

  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    PADDLE_TRY_STATUS(settle());
    if (has_dense_ && !dense_.is_empty()) {
      dense_.copy_to(parameters);
      return {};
    }
    PADDLE_TRY_STATUS(direct_->pull_dense(parameters));
    if (has_dense_) dense_.reset(parameters);
    return {};
  }
  Status pull_rows(std::span<client::SparseRows> rows) override {
    if (!has_rows_) return direct_->pull_rows(rows);
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
  // What the shards hold, not this trainer's copy.
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override {
    PADDLE_TRY_STATUS(settle());
    return direct_->pull_averages(dense, rows);
  }

  Status push(std::uint64_t samples, double cost, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override {
    pass_samples_ += samples;
    const float rate = learning_rate();
    if (has_dense_) dense_.update(rate, dense);
    for (std::size_t i = 0; has_rows_ && i < sparse.size(); ++i) tables_[i].update(rate, sparse[i]);
    ++window_.batches;
    window_.samples += samples;
    window_.cost += cost;
    if (window_.batches >= set_.update_frequency()) {
      PADDLE_TRY_STATUS(push_window());
      if (has_dense_) dense_.copy_to(dense);
    }
    if (!has_dense_) PADDLE_TRY_STATUS(direct_->push_dense({1, samples, cost}, dense));
    if (!has_rows_) PADDLE_TRY_STATUS(direct_->push_rows({1, samples, cost}, sparse));
    return {};
  }
  Status push_dense(const client::PushTotals& totals,
                    std::span<client::DenseParameter> dense) override {
    return direct_->push_dense(totals, dense);
  }
  Status push_rows(const client::PushTotals& totals, std::span<client::SparseRows> rows) override {
    return direct_->push_rows(totals, rows);
  }
  Result<client::PassTotals> finish_pass(const Tally& tally) override {
    PADDLE_TRY_STATUS(push_all());
    pass_samples_ = 0;
    return direct_->finish_pass(tally);
  }
  Result<client::PassTotals> pause_pass(const Tally& tally) override {
    PADDLE_TRY_STATUS(push_all());
    return direct_->pause_pass(tally);
  }
  Status save_snapshot(const std::string& directory) override {
    return direct_->save_snapshot(directory);
  }
  Status save_delta(const std::string& directory, const std::string& base) override {
    return direct_->save_delta(directory, base);
  }
  Status leave() override {
    PADDLE_TRY_STATUS(settle());
    return direct_->leave();
  }

 private:
  // The others are taken to be as far in the pass as this trainer, so that no answer is waited for
  // and the same batches give the same bits.
  float learning_rate() const {
    const client::JobProgress begun = direct_->progress();
    return optim::learning_rate(
        set_.optimizer(), {begun.samples + pass_samples_ * set_.num_trainers(), begun.passes});
  }

  Status fetch(std::span<client::SparseRows> rows) {
    if (!rows_sender_) return direct_->pull_rows(rows);
    return rows_sender_->ask([&] { return direct_->pull_rows(rows); });
  }

  Status push_window() {
    const client::PushTotals totals = std::exchange(window_, client::PushTotals{0, 0, 0});
    if (has_rows_) {
      std::vector<client::SparseRows> moves;
      for (LocalRows& table : tables_) moves.push_back(table.take_moves());
      PADDLE_TRY_STATUS(rows_sender_ ? rows_sender_->add(totals, {}, moves, true, nullptr)
                                     : direct_->push_rows(totals, moves));
    }
    if (!has_dense_) return {};
    std::vector<client::DenseParameter> moves = dense_.take_moves();
    if (!dense_sender_) {
      PADDLE_TRY_STATUS(direct_->push_dense(totals, moves));
      if (set_.elastic_rate() > 0) {
        dense_.on_center(moves);
      } else {
        dense_.reset(moves);  // the mean, to the bit on every trainer
      }
      return {};
    }
    std::vector<client::DenseParameter> values;
    PADDLE_TRY_STATUS(dense_sender_->add(totals, moves, {}, false, &values));
    if (!values.empty()) dense_.on_values(values, 1);
    return {};
  }

  Status push_all() {
    if (window_.batches > 0) PADDLE_TRY_STATUS(push_window());
    return settle();
  }

  // Every push is answered, and taken in.
  Status settle() {
    if (rows_sender_) PADDLE_TRY_STATUS(rows_sender_->flush(nullptr));
    if (!dense_sender_) return {};
    std::vector<client::DenseParameter> values;
    PADDLE_TRY_STATUS(dense_sender_->flush(&values));
    if (!values.empty()) dense_.on_values(values, 0);
    return {};
  }

  wire::ParameterSet set_;
  std::unique_ptr<client::ParameterClient> direct_;
  bool has_dense_;
  bool has_rows_;
  LocalDense dense_;
  std::vector<LocalRows> tables_;
  client::PushTotals window_{0, 0, 0};
  std::uint64_t pass_samples_ = 0;  // of this trainer
  std::unique_ptr<Sender> dense_sender_;
  std::unique_ptr<Sender> rows_sender_;
};

}  // namespace

std::unique_ptr<client::ParameterClient> make_local_client(
    std::unique_ptr<client::ParameterClient> direct, const LocalOptions& options) {
  return std::make_unique<LocalClient>(std::move(direct), options);
}

}  // namespace paddle::strategy
