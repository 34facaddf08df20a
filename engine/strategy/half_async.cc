#include "engine/strategy/half_async.h"

#include "base/check.h"
#include "engine/strategy/sender.h"

namespace paddle::strategy {
namespace {

class HalfAsyncClient final : public client::ParameterClient {
 public:
  HalfAsyncClient(std::unique_ptr<client::ParameterClient> direct, const HalfAsyncOptions& options)
      : direct_(std::move(direct)) {
    if (options.dense) {
      dense_ = std::make_unique<Sender>(
          options.communicator,
          [this](const Window& window) -> Result<std::vector<client::DenseParameter>> {
            std::vector<client::DenseParameter> parameters = window.dense;
            PADDLE_TRY_STATUS(
                direct_->push_dense({window.batches, window.samples, window.cost}, parameters));
            return parameters;
          });
    }
    if (options.sparse) {
      sparse_ = std::make_unique<Sender>(
          options.communicator,
          [this](const Window& window) -> Result<std::vector<client::DenseParameter>> {
            std::vector<client::SparseRows> rows = window.rows;
            PADDLE_TRY_STATUS(
                direct_->push_rows({window.batches, window.samples, window.cost}, rows));
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
    PADDLE_TRY_STATUS(flush());
    return direct_->pull_dense(parameters);
  }
  Status pull_rows(std::span<client::SparseRows> rows) override {
    if (!sparse_) return direct_->pull_rows(rows);
    return sparse_->ask([&] { return direct_->pull_rows(rows); });
  }
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override {
    PADDLE_TRY_STATUS(flush());
    return direct_->pull_averages(dense, rows);
  }

  Status push(std::uint64_t samples, double cost, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override {
    // The threads first: what goes straight through may wait for other trainers.
    std::vector<client::DenseParameter> values;
    if (sparse_) PADDLE_TRY_STATUS(sparse_->add({1, samples, cost}, {}, sparse, true, nullptr));
    if (dense_) {
      PADDLE_TRY_STATUS(dense_->add({1, samples, cost}, dense, {}, false, &values));
      take(values, dense);
    } else {
      PADDLE_TRY_STATUS(direct_->push_dense({1, samples, cost}, dense));
    }
    if (!sparse_) PADDLE_TRY_STATUS(direct_->push_rows({1, samples, cost}, sparse));
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
    PADDLE_TRY_STATUS(flush());
    return direct_->finish_pass(tally);
  }
  Result<client::PassTotals> pause_pass(const Tally& tally) override {
    PADDLE_TRY_STATUS(flush());
    return direct_->pause_pass(tally);
  }
  Status save_snapshot(const std::string& directory) override {
    PADDLE_TRY_STATUS(flush());
    return direct_->save_snapshot(directory);
  }
  Status save_delta(const std::string& directory, const std::string& base) override {
    PADDLE_TRY_STATUS(flush());
    return direct_->save_delta(directory, base);
  }
  Status leave() override {
    PADDLE_TRY_STATUS(flush());
    return direct_->leave();
  }

 private:
  Status flush() {
    if (sparse_) PADDLE_TRY_STATUS(sparse_->flush(nullptr));
    if (dense_) PADDLE_TRY_STATUS(dense_->flush(nullptr));
    return {};
  }
  static void take(std::vector<client::DenseParameter>& values,
                   std::span<client::DenseParameter> dense) {
    if (values.empty()) return;
    PADDLE_CHECK(values.size() == dense.size());
    for (std::size_t i = 0; i < dense.size(); ++i) dense[i].value = std::move(values[i].value);
  }

  std::unique_ptr<client::ParameterClient> direct_;
  std::unique_ptr<Sender> dense_;
  std::unique_ptr<Sender> sparse_;
};

}  // namespace

std::unique_ptr<client::ParameterClient> make_half_async_client(
    std::unique_ptr<client::ParameterClient> direct, HalfAsyncOptions options) {
  return std::make_unique<HalfAsyncClient>(std::move(direct), options);
}

}  // namespace paddle::strategy
