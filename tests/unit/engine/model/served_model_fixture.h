// A service over small snapshots whose parameters are drawn.
#pragma once

#include <future>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/config/job_config.h"
#include "engine/model/description.h"
#include "engine/model/predictor.h"
#include "engine/model/service.h"
#include "engine/snapshot/writer.h"
#include "tests/support/saved_row.h"
#include "tests/support/temporary_folder.h"

namespace paddle::serve {

// One table has few rows, so that an id may be wrong, and the last layer has one column.
inline constexpr const char* kJob = R"([data]
train = "train.txt"
format = "multislot"
[[data.slot]]
name = "town"
type = "id"
[[data.slot]]
name = "tags"
type = "ids"
[[data.slot]]
name = "body"
type = "float"
width = 3
[[data.slot]]
name = "label"
type = "id"
[[layer]]
name = "towns"
type = "embedding"
input = ["town"]
size = 8
vocabulary = 50
[[layer]]
name = "all_tags"
type = "embedding"
input = ["tags"]
pooling = "mean"
size = 8
weight = { sparse = true }
[[layer]]
name = "wide"
type = "fc"
input = ["towns", "all_tags", "body"]
size = 37
activation = "relu"
[[layer]]
name = "narrow"
type = "fc"
input = ["wide"]
size = 3
activation = "tanh"
[[layer]]
name = "score"
type = "fc"
input = ["narrow", "wide"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "label"
[train]
passes = 1
)";
inline constexpr std::uint64_t kTowns = 50, kTags = 100;

// A service and its snapshots.
class Served {
 public:
  explicit Served(std::uint32_t pass) {
    folder_.write("w/job.toml", kJob);
    folder_.make("save");
    put(pass);
  }

  // A snapshot with other parameters for each pass, in save/pass-0000N or in `place`.
  void put(std::uint32_t pass, const std::string& place = "") {
    const auto job = config::resolve_job(folder_ / "w/job.toml");
    ASSERT_TRUE(job) << job.error().message;
    const auto predictor =
        inference::Predictor::build(job->config, "", inference::LineFormat::kCsv);
    const auto files = inference::describe_model(*job, folder_ / "w/job.toml");
    ASSERT_TRUE(predictor && files);
    snapshot::SnapshotInfo info;
    info.pass = pass;
    info.optimizer.set_method("sgd");
    info.optimizer.set_learning_rate(1);
    auto writer = snapshot::SnapshotWriter::create(
        folder_ / (place.empty() ? fmt::format("save/pass-{:05}", pass) : place), info);
    ASSERT_TRUE(writer) << writer.error().message;
    for (const snapshot::ModelFile& file : *files) ASSERT_TRUE(writer->add_model_file(file));
    Rng rng(pass);
    const auto draw = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& value : values) value = static_cast<float>(rng.normal()) / 4;
      return values;
    };
    for (const wire::ParameterSpec& spec : predictor->parameters()) {
      if (!spec.sparse()) {
        const auto values =
            draw(std::accumulate(spec.dims().begin(), spec.dims().end(), 1UL, std::multiplies<>()));
        const Status added = writer->add_dense(spec, values, {}, 1);
        ASSERT_TRUE(added) << added.error().message;
        continue;
      }
      ASSERT_TRUE(writer->begin_sparse(spec, 0));
      std::vector<test::SavedRow> rows;
      for (std::uint64_t id = 0; id < kTags; ++id)
        rows.push_back({.id = id, .value = draw(8), .state = {}});
      ASSERT_TRUE(writer->add_rows(test::encoded(rows)));
      ASSERT_TRUE(writer->end_sparse());
    }
    const Status finished = writer->finish();
    ASSERT_TRUE(finished) << finished.error().message;
  }

  void start(std::uint32_t threads, NewestModel::Choice choice = NewestModel::Choice::kBest,
             const std::string& snapshot = "save") {
    auto model =
        NewestModel::open(folder_ / snapshot, choice, {}, counters_, std::chrono::milliseconds(1));
    ASSERT_TRUE(model) << model.error().message;
    model_ = *std::move(model);
    service_ = std::make_unique<Service>(*model_, counters_,
                                         ServiceOptions{.threads = threads, .queue_max = 100'000});
  }

  Service& service() { return *service_; }

  // Every byte of a reply.
  static std::string text(const Reply& reply) {
    return fmt::format("{} {} {}\n{}", reply.status, reply.type, reply.retry_seconds, reply.body);
  }
  std::future<std::string> ask(const Request& request) {
    auto reply = std::make_shared<std::promise<std::string>>();
    service_->answer(request, [reply](const Reply& said) { reply->set_value(text(said)); });
    return reply->get_future();
  }
  // The replies to requests of which each is there alone.
  std::vector<std::string> ask_alone(const std::vector<Request>& requests) {
    std::vector<std::string> replies;
    for (const Request& request : requests) replies.push_back(ask(request).get());
    return replies;
  }

  std::string model() const { return model_->get()->name(); }
  std::string description() const { return model_->get()->description(); }
  // Within a deadline.
  bool comes_to_serve(const std::string& name) const {
    const TimePoint end = SteadyClock().now() + std::chrono::seconds(60);
    while (model() != name && SteadyClock().now() < end) std::this_thread::yield();
    return model() == name;
  }
  const test::TemporaryFolder& folder() const { return folder_; }
  // The value of a counter of /metrics.
  std::uint64_t counted(const std::string& name) const {
    const std::string metrics = counters_.text(*model_->get());
    const std::size_t at = metrics.find("\npaddle_serve_" + name + " ");
    return at == std::string::npos ? 0 : std::stoull(metrics.substr(metrics.find(' ', at)));
  }

 private:
  test::TemporaryFolder folder_;
  Counters counters_;
  std::unique_ptr<NewestModel> model_;
  std::unique_ptr<Service> service_;
};

inline Request post(std::string path, std::string content_type, std::string body) {
  return {.method = "POST",
          .path = std::move(path),
          .host = {},
          .content_type = std::move(content_type),
          .authorization = {},
          .body = std::move(body)};
}

}  // namespace paddle::serve
