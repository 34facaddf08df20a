#include "engine/serve/service.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "engine/config/job_config.h"
#include "engine/inference/description.h"
#include "engine/inference/predictor.h"
#include "engine/snapshot/writer.h"
#include "tests/support/temporary_folder.h"

namespace paddle::serve {
namespace {

// One table has few rows, so that an id may be wrong, and the last layer has one column.
constexpr const char* kJob = R"([data]
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
constexpr std::uint64_t kTowns = 50, kTags = 100;

// A service and its snapshots.
class Served {
 public:
  explicit Served(std::uint32_t pass) {
    folder_.write("w/job.toml", kJob);
    folder_.make("save");
    put(pass);
  }

  // A snapshot with other parameters for each pass.
  void put(std::uint32_t pass) {
    const auto job = config::read_job(folder_ / "w/job.toml");
    ASSERT_TRUE(job) << job.error().message;
    const auto predictor = inference::Predictor::build(*job, "", inference::LineFormat::kCsv);
    const auto files = inference::describe_model(folder_ / "w/job.toml", {});
    ASSERT_TRUE(predictor && files);
    snapshot::SnapshotInfo info;
    info.pass = pass;
    info.optimizer.set_method("sgd");
    info.optimizer.set_learning_rate(1);
    auto writer =
        snapshot::SnapshotWriter::create(folder_ / fmt::format("save/pass-{:05}", pass), info);
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
      std::vector<snapshot::SparseRow> rows;
      for (std::uint64_t id = 0; id < kTags; ++id)
        rows.push_back({.id = id, .value = draw(8), .state = {}});
      ASSERT_TRUE(writer->add_rows(rows));
      ASSERT_TRUE(writer->end_sparse());
    }
    const Status finished = writer->finish();
    ASSERT_TRUE(finished) << finished.error().message;
  }

  void start(std::uint32_t threads) {
    auto model = NewestModel::open(folder_ / "save", {}, counters_, std::chrono::milliseconds(1));
    ASSERT_TRUE(model) << model.error().message;
    model_ = *std::move(model);
    service_ = std::make_unique<Service>(*model_, counters_,
                                         ServiceOptions{.threads = threads, .queue_max = 100'000});
  }

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
  // Of a counter of /metrics.
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

Request post(std::string path, std::string content_type, std::string body) {
  return {.method = "POST",
          .path = std::move(path),
          .host = {},
          .content_type = std::move(content_type),
          .authorization = {},
          .body = std::move(body)};
}
std::string json_record(Rng& rng, std::uint64_t town) {
  std::string tags;
  for (std::uint64_t i = rng.below(5); i > 0; --i)
    tags += fmt::format("{}{}", rng.below(kTags + 10), i > 1 ? "," : "");
  return fmt::format("{{\"town\":{},\"tags\":[{}],\"body\":[{},{},{}]}}\n", town, tags,
                     rng.normal(), rng.normal(), rng.normal());
}
std::string text_record(Rng& rng, std::uint64_t town) {
  return fmt::format("1 {} 2 {} {} 3 {} {} {} 1 0\n", town, rng.below(kTags), rng.below(kTags),
                     rng.normal(), rng.normal(), rng.normal());
}
// Good ones of each size and format, and everything that may be wrong with one.
std::vector<Request> requests() {
  Rng rng(7);
  std::vector<Request> all;
  const auto add = [&](bool is_json, std::string body, std::string path = "/v1/predict") {
    all.push_back(
        post(std::move(path), is_json ? "application/json" : "text/plain", std::move(body)));
  };
  const auto records = [&](bool is_json, std::size_t count) {
    std::string body;
    for (std::size_t i = 0; i < count; ++i)
      body += (is_json ? json_record : text_record)(rng, rng.below(kTowns));
    return body;
  };
  for (const std::size_t count : {0, 1, 2, 3, 5, 7, 13, 16, 30, 31, 44, 100, 513, 700, 2000}) {
    for (const bool is_json : {true, false, true}) add(is_json, records(is_json, count));
  }
  for (int i = 0; i < 40; ++i) add(true, records(true, 1));
  const std::string wrong_id = json_record(rng, kTowns), good = json_record(rng, 1);
  for (const std::size_t before : {0, 1, 20, 600}) {
    const std::string start = records(true, before);
    add(true, start + wrong_id + good);
    add(true, start + "{\n" + good);
    add(true, start + R"({"town":1})" + "\n");
    add(true, start + R"({"streets":1})" + "\n" + wrong_id);
    add(true, start + wrong_id + "no record\n");
    add(true, start + "\r\n\n" + wrong_id);
    add(false, records(false, before) + text_record(rng, kTowns) + records(false, 1));
    add(false, records(false, before) + "1 2 3\n");
  }
  add(true, R"({"parameter":"_all_tags.w0","ids":[3,1000]})", "/v1/rows");
  add(true, R"({"ids":["a"]})", "/v1/rows");
  return all;
}

// Several clients, each of which sends all requests at once, in an order of its own.
TEST(ServiceTest, AnswersARequestAmongOthersAsAlone) {
  Served served(0);
  served.start(2);
  if (testing::Test::HasFatalFailure()) return;
  const std::vector<Request> all = requests();
  const std::vector<std::string> old = served.ask_alone(all);
  for (const std::string status : {"200 text/csv", "200 application/x-ndjson", "400 ", "200 app"})
    EXPECT_TRUE(std::ranges::any_of(old, [&](const auto& one) { return one.starts_with(status); }));
  const std::uint64_t records = served.counted("records_total");
  const std::uint64_t requests = served.counted("batched_requests_total");
  EXPECT_EQ(served.counted("batches_total"), requests) << "each was alone";

  std::atomic<int> of_old = 0, of_new = 0;
  std::vector<std::string> fresh;
  // Sends all requests, and counts whose replies they get.
  const auto ask_all = [&](std::uint64_t client) {
    std::vector<std::size_t> order(all.size());
    std::iota(order.begin(), order.end(), 0);
    Rng rng(client);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
    std::vector<std::pair<std::size_t, std::future<std::string>>> replies;
    for (const std::size_t i : order) replies.emplace_back(i, served.ask(all[i]));
    for (auto& [i, reply] : replies) {
      const std::string said = reply.get();
      const bool is_old = said == old[i], is_new = !fresh.empty() && said == fresh[i];
      of_old += is_old ? 1 : 0;
      of_new += is_new ? 1 : 0;
      EXPECT_TRUE(is_old || is_new) << "request " << i << " got " << said.substr(0, 200)
                                    << "\nand alone " << old[i].substr(0, 200);
    }
  };
  constexpr int kClients = 4;
  const auto start_clients = [&] {
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) clients.emplace_back(ask_all, i);
    return clients;
  };
  for (std::thread& client : start_clients()) client.join();
  EXPECT_EQ(of_old, kClients * static_cast<int>(all.size()));
  EXPECT_EQ(served.counted("records_total"), (kClients + 1) * records);
  EXPECT_EQ(served.counted("batched_requests_total"), (kClients + 1) * requests);
  if (Model::joins_requests()) {
    EXPECT_LT(served.counted("batches_total"), (kClients + 1) * requests);
  }

  // A newer model comes meanwhile: each reply is of one of the two.
  Served newer(1);
  newer.start(1);
  if (testing::Test::HasFatalFailure()) return;
  fresh = newer.ask_alone(all);
  EXPECT_NE(fresh, old);
  auto clients = start_clients();
  served.put(1);
  while (served.model() != "pass-00001") std::this_thread::yield();
  for (std::thread& client : clients) client.join();
  of_new = 0;
  ask_all(kClients);
  EXPECT_EQ(of_new, static_cast<int>(all.size()));
}

TEST(ServiceTest, RefusesTooManyRecordsOfOneRequestAlone) {
  Served served(0);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  const std::string record = "1 2 1 0 3 1 1 1 1 0\n";
  std::string many;
  for (std::size_t i = 0; i <= kRecordsMax; ++i) many += record;
  const auto request = [](const std::string& body) { return post("/v1/predict", "", body); };
  const std::string one = served.ask(request(record)).get();
  auto before = served.ask(request(record)), large = served.ask(request(many));
  auto behind = served.ask(request(record));
  EXPECT_EQ(large.get(),
            "413 application/json 0\n{\"error\":{\"message\":\"more than 100000 records\","
            "\"hint\":\"ask for less at a time\"}}\n");
  EXPECT_EQ(before.get(), one);
  EXPECT_EQ(behind.get(), one);
  EXPECT_EQ(served.counted("records_total"), 3U);
}

}  // namespace
}  // namespace paddle::serve
