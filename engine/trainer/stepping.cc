#include "engine/trainer/stepping.h"

namespace paddle::trainer {
namespace {

class NotedClient final : public client::ParameterClient {
  template <class Call>
  auto noted(const Call& call) {
    stepping_.end_step();
    auto result = call();
    stepping_.begin_step();
    return result;
  }

 public:
  NotedClient(client::ParameterClient& client, Stepping& stepping)
      : client_(client), stepping_(stepping) {}
  ~NotedClient() override { stepping_.end_step(); }
  NotedClient(const NotedClient&) = delete;
  NotedClient& operator=(const NotedClient&) = delete;

  Status ready() override {
    return noted([&] { return client_.ready(); });
  }
  client::JobProgress progress() const override { return client_.progress(); }
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    return noted([&] { return client_.pull_dense(parameters); });
  }
  Status pull_rows(std::span<client::SparseRows> rows) override {
    return noted([&] { return client_.pull_rows(rows); });
  }
  Result<bool> pull_ahead(std::span<client::SparseRows> rows) override {
    return noted([&] { return client_.pull_ahead(rows); });
  }
  Status pull_averages(std::span<client::DenseParameter> dense,
                       std::span<client::SparseRows> rows) override {
    return noted([&] { return client_.pull_averages(dense, rows); });
  }
  Status begin_push(std::uint64_t num_samples, std::span<client::SparseRows> sparse) override {
    return noted([&] { return client_.begin_push(num_samples, sparse); });
  }
  Status push(std::uint64_t num_samples, double cost_sum, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows> sparse) override {
    return noted([&] { return client_.push(num_samples, cost_sum, dense, sparse); });
  }
  Status repeat_push(std::uint64_t batch, std::uint64_t num_samples, double cost_sum,
                     std::span<client::DenseParameter> dense,
                     std::span<client::SparseRows> sparse) override {
    return noted([&] { return client_.repeat_push(batch, num_samples, cost_sum, dense, sparse); });
  }
  void repeat_end(client::PassEnd end) override { client_.repeat_end(end); }
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd end) override {
    return noted([&] { return client_.end_pass(tally, end); });
  }
  Result<bool> is_any(bool own) override {
    return noted([&] { return client_.is_any(own); });
  }
  Status announce_busy(std::string_view activity) override {
    return noted([&] { return client_.announce_busy(activity); });
  }
  void ask_to_stop() override { client_.ask_to_stop(); }
  bool stop_asked() const override { return client_.stop_asked(); }
  Status leave() override {
    stepping_.end_step();  // no step follows
    return client_.leave();
  }
  void interrupt(const Error& why) override { client_.interrupt(why); }
  void abandon(const Error& why) override { client_.abandon(why); }
  client::SnapshotClient& snapshots() override { return client_.snapshots(); }

 private:
  client::ParameterClient& client_;
  Stepping& stepping_;
};

}  // namespace

wire::Pulse Stepping::pulse() const {
  wire::Pulse pulse;
  pulse.set_steps(steps_);
  pulse.set_is_stepping(is_own_ && is_training_);
  return pulse;
}

std::unique_ptr<client::ParameterClient> note_steps(client::ParameterClient& client,
                                                    Stepping& stepping) {
  return std::make_unique<NotedClient>(client, stepping);
}

}  // namespace paddle::trainer
