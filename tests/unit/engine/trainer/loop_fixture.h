// A trainer's loop over three records, with pservers that do nothing.
#pragma once

#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "engine/snapshot/writer.h"
#include "engine/trainer/loop.h"
#include "engine/trainer/pass_snapshots.h"
#include "tests/support/price_network.h"
#include "tests/support/temporary_folder.h"

namespace paddle::trainer {

inline const std::string kJob = std::string(R"(
[data]
train = "train.csv"
format = "csv"
columns = ["area", "price"]
)") + test::kPriceNetwork + "[train]\npasses = 2\nbatch_size = 1\n";

// Saves snapshots without parameters.
class EmptySnapshots final : public client::SnapshotClient {
 public:
  void describe(std::shared_ptr<const std::vector<snapshot::ModelFile>>) override {}
  void describe_place(const snapshot::PassPlace& given) override { place = given; }
  Status load(const std::string&) override { std::abort(); }
  Status resume(const snapshot::SnapshotReader&) override { std::abort(); }
  Status save(const std::string& directory) override { return write("full", directory); }
  Status save_delta(const std::string& directory, const std::string& base) override {
    return write("since " + name_of(base), directory);
  }
  Status save_copy(const std::string& directory) override { return write("copy", directory); }
  Result<std::uint64_t> leader_batches() override { std::abort(); }

  std::vector<std::string> saved;                              // "full pass-00000"
  std::function<Status(const std::string& name)> finish = {};  // called after each save
  std::map<std::string, Error> failures;                       // by name
  std::optional<snapshot::PassPlace> place;

 private:
  static std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }
  Status write(const std::string& kind, const std::string& directory) {
    saved.push_back(kind + " " + name_of(directory));
    if (const auto failure = failures.find(name_of(directory)); failure != failures.end()) {
      return failure->second;
    }
    snapshot::SnapshotInfo info;
    info.optimizer.set_method("sgd");
    info.optimizer.set_learning_rate(0.1F);
    info.pass = saved.size();
    info.trainer_cursors = {0};
    PADDLE_TRY(auto writer, snapshot::SnapshotWriter::create(directory, info));
    PADDLE_TRY_STATUS(writer.finish());
    return finish ? finish(name_of(directory)) : Status();
  }
};

// Pservers whose values stay zero, or are what after_pass says.
class IdleClient : public client::ParameterClient {
 public:
  Status ready() override { return {}; }
  client::JobProgress progress() const override { return at; }
  Status pull_dense(std::span<client::DenseParameter> parameters) override {
    const float value = passes > 0 && passes <= after_pass.size() ? after_pass[passes - 1] : 0;
    for (client::DenseParameter& one : parameters) one.value.assign(1, value);
    return {};
  }
  Status pull_rows(std::span<client::SparseRows>) override { return {}; }
  Status pull_averages(std::span<client::DenseParameter>, std::span<client::SparseRows>) override {
    return {};
  }
  Status push(std::uint64_t samples, double cost, std::span<client::DenseParameter> dense,
              std::span<client::SparseRows>) override {
    if (on_push) on_push();
    pushed.push_back({samples, cost, dense.empty() ? 0.0F : dense[0].gradients()[0]});
    return {};
  }
  Status repeat_push(std::uint64_t batch, std::uint64_t, double, std::span<client::DenseParameter>,
                     std::span<client::SparseRows>) override {
    repeated_batch = batch;
    if (repeated) at.is_split = false;
    return repeated;
  }
  void repeat_end(client::PassEnd end) override {
    calls += end == client::PassEnd::kPause ? "repeat-meet " : "repeat-end ";
  }
  Result<client::PassTotals> end_pass(const Tally& tally, client::PassEnd end) override {
    client::PassTotals totals;
    totals.samples = samples_of_pass;
    totals.cost = cost_of_pass;
    totals.tally = tally;
    totals.paused = end == client::PassEnd::kPause;
    calls += totals.paused ? "meet " : "end ";
    if (!totals.paused) ++passes;
    if (totals.paused && told) totals.tally = *told;
    return totals;
  }
  Status announce_busy(std::string_view /*activity*/) override { return {}; }
  void ask_to_stop() override { is_stop_asked = true; }
  bool stop_asked() const override { return is_stop_asked; }
  Status leave() override { return left; }
  void interrupt(const Error&) override {}
  void abandon(const Error&) override {}
  client::SnapshotClient& snapshots() override { return empty_snapshots; }

  EmptySnapshots empty_snapshots;
  client::JobProgress at;
  std::function<void()> on_push;
  std::vector<float> after_pass;  // every number of the dense parameters, by pass
  std::size_t passes = 0;         // finished
  std::uint64_t samples_of_pass = 3;
  double cost_of_pass = 0;    // their sum
  std::string calls;          // "end meet meet "
  std::optional<Tally> told;  // to all trainers, whatever this one says
  bool is_stop_asked = false;
  Status repeated;
  std::uint64_t repeated_batch = 0;
  Status left;
  struct Pushed {
    std::uint64_t samples = 0;
    double cost = 0;
    float gradient = 0;  // the first of the first parameter
  };
  std::vector<Pushed> pushed;
};

class LoopTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_.write("train.csv", "1,2\n2,4\n3,6\n");
    auto job = config::read_job(folder_.write("job.toml", kJob));
    ASSERT_TRUE(job) << job.error().message;
    auto model = Model::build(*job);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    auto share = config::data_share(folder_.path(), job->data.train, 0, 1);
    ASSERT_TRUE(share) << share.error().message;
    options_.train = job->train;
    options_.optimizer = job->optimizer;
    options_.train_data = {.data = job->data,
                           .share = *std::move(share),
                           .folder = folder_.path(),
                           .batch_size = job->train.batch_size};
  }
  Status run() {
    MetricsFile metrics = *MetricsFile::open("");
    return Loop(options_, dictionary_, *model_, client_, metrics).run();
  }
  // The line of the last pass.
  std::string run_with_metrics() {
    const std::string path = folder_ / "metrics";
    {
      MetricsFile metrics = *MetricsFile::open(path);
      const Status done = Loop(options_, dictionary_, *model_, client_, metrics).run();
      EXPECT_TRUE(done) << done.error().message;
    }
    const std::string all = test::TemporaryFolder::read(path);
    const std::size_t begin = all.rfind(R"({"kind":"pass")");
    EXPECT_NE(begin, std::string::npos) << all;
    return begin == std::string::npos ? all : all.substr(begin);
  }
  static double value_of(const std::string& json, const std::string& name) {
    const std::size_t begin = json.find('"' + name + "\":");
    EXPECT_NE(begin, std::string::npos) << json;
    return begin == std::string::npos ? 0 : std::stod(json.substr(begin + name.size() + 3));
  }

  test::TemporaryFolder folder_;
  LoopOptions options_;
  data::Dictionary dictionary_;
  std::optional<Model> model_;
  IdleClient client_;
};

}  // namespace paddle::trainer
