// `paddle serve` as its clients see it: predictions and rows, newer snapshots, limits and abuse.
#include <atomic>
#include <cmath>
#include <mutex>
#include <regex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/http_client.h"
#include "tests/support/process.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kText = "Content-Type: text/plain\r\n";
constexpr const char* kJson = "Content-Type: application/x-ndjson\r\n";

class Serving : public testing::Test {
 protected:
  // A small model of clicks, trained once.
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    fs::copy(fs::path(TEMPLATES_FOLDER) / "ctr_dnn", fs::path(folder_->path()) / "ctr_dnn",
             fs::copy_options::recursive);
    ASSERT_EQ(shell("ctr_dnn/prepare --values 5 --examples 2000 --test 600 && "
                    "paddle train --local --config=ctr_dnn/job.toml --save_dir=save --num_passes=2 "
                    "--set=train.batch_size=64"),
              0)
        << read("out");
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static int shell(const std::string& command) {
    Process process({"/bin/sh", "-c", fmt::format("cd {} && {{ {}; }}", folder_->path(), command)},
                    *folder_ / "out",
                    {"PATH=" + fs::path(PADDLE_PROGRAM).parent_path().string() + ":/usr/bin:/bin"});
    return process.wait(std::chrono::seconds(280)).value_or(-1);
  }
  static std::string read(const std::string& name) {
    return TemporaryFolder::read(*folder_ / name);
  }
  // The lines of `paddle predict`, without labels.
  static std::string predicted(const std::string& snapshot) {
    EXPECT_EQ(shell("paddle predict --snapshot=" + snapshot +
                    " --data=ctr_dnn/data/test.txt >predicted.csv"),
              0)
        << read("out");
    return std::regex_replace(read("predicted.csv"), std::regex("(^|\n)[01],"), "$1");
  }

  void start(const std::string& snapshot, std::vector<std::string> flags = {}) {
    const std::string log = *folder_ / fmt::format("serve-{}", servers_++);
    flags.insert(flags.begin(),
                 {PADDLE_PROGRAM, "serve", "--port=0", "--snapshot=" + *folder_ / snapshot});
    server_.emplace(std::move(flags), log);
    ASSERT_TRUE(server_->prints(" on http://127.0.0.1:")) << server_->output();
    const std::string said = server_->output();
    port_ = static_cast<std::uint16_t>(std::stoi(said.substr(said.find("127.0.0.1:") + 10)));
  }
  HttpReply ask(const std::string& method, const std::string& path, const std::string& body = "",
                const std::string& headers = "") const {
    return HttpClient(port_).ask(method, path, body, headers).value_or(HttpReply());
  }
  // Its largest resident memory so far, and its resident memory now.
  std::uint64_t peak_kilobytes() const { return kilobytes("VmHWM:"); }
  std::uint64_t resident_kilobytes() const { return kilobytes("VmRSS:"); }
  std::uint64_t kilobytes(std::string_view what) const {
    const std::string status =
        TemporaryFolder::read(fmt::format("/proc/{}/status", server_->pid()));
    return std::stoul(status.substr(status.find(what) + what.size()));
  }
  void expect_a_clean_end() {
    server_->signal(SIGTERM);
    EXPECT_EQ(server_->wait(), 0) << server_->output();
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static int servers_;
  std::optional<Process> server_;
  std::uint16_t port_ = 0;
};
std::unique_ptr<TemporaryFolder> Serving::folder_;
int Serving::servers_ = 0;

TEST_F(Serving, GivesTheScoresOfPredict) {
  const std::string records = read("ctr_dnn/data/test.txt"), scores = predicted("save/pass-00001");
  start("save");
  HttpClient client(port_);
  for (int time = 0; time < 3; ++time) {  // on one connection
    const auto reply = client.ask("POST", "/v1/predict", records, kText);
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->status, 200) << reply->body;
    EXPECT_EQ(reply->headers.at("content-type"), "text/csv");
    EXPECT_EQ(reply->body, scores);
  }
  const auto one = client.ask("POST", "/v1/predict", records.substr(0, records.find('\n')), kText);
  ASSERT_TRUE(one);
  EXPECT_NEAR(std::stod(one->body), std::stod(scores), 1e-6);

  // Categories that training never saw have the score of predict too.
  ASSERT_EQ(shell("sed 's/[0-9a-f]*$/feedbeef/' ctr_dnn/data/test.txt >new.txt && "
                  "paddle predict --snapshot=save/pass-00001 --data=new.txt >new.csv"),
            0)
      << read("out");
  const std::string unseen = std::regex_replace(read("new.csv"), std::regex("(^|\n)[01],"), "$1");
  EXPECT_EQ(client.ask("POST", "/v1/predict", read("new.txt"), kText)->body, unseen);

  // The same record as JSON: numbers go through a logarithm before, texts are hashed as in files.
  const std::string fields = records.substr(0, records.find('\n')) + "\t";
  std::string dense, texts;
  std::size_t begin = fields.find('\t') + 1;
  for (int i = 0; i < 39; ++i) {
    const std::size_t end = fields.find('\t', begin);
    const std::string field = fields.substr(begin, end - begin);
    begin = end + 1;
    if (i < 13) {
      const double value = field.empty() ? 0 : std::stod(field);
      dense += fmt::format("{}{}", i > 0 ? "," : "", std::log1p(std::max(value, 0.0)));
    } else {
      texts += fmt::format(",\"C{}\":\"{}\"", i - 12, field);
    }
  }
  const std::string record = fmt::format("{{\"dense\":[{}]{}}}", dense, texts);
  const auto json = client.ask("POST", "/v1/predict", record + "\n" + record + "\n", kJson);
  ASSERT_TRUE(json);
  EXPECT_EQ(json->status, 200) << json->body;
  std::smatch parts;
  ASSERT_TRUE(std::regex_match(
      json->body, parts, std::regex("\\{\"score\":([0-9.e-]+)\\}\n\\{\"score\":([0-9.e-]+)\\}\n")))
      << json->body;
  EXPECT_NEAR(std::stod(parts[1]), std::stod(scores), 1e-5);

  // As curl sends it, which asks before a large body.
  std::string large;
  while (large.size() < (2U << 20U)) large += records;
  std::ofstream(*folder_ / "large.txt") << large;
  ASSERT_EQ(shell(fmt::format("curl -sS --data-binary @large.txt http://127.0.0.1:{}/v1/predict "
                              ">large.csv",
                              port_)),
            0)
      << read("out");
  EXPECT_TRUE(read("large.csv").starts_with(scores.substr(0, 1000)));
  EXPECT_EQ(std::ranges::count(read("large.csv"), '\n'), std::ranges::count(large, '\n'));
  expect_a_clean_end();
}

TEST_F(Serving, ShowsItsTablesItsModelAndItsFigures) {
  start("save/pass-00000");
  HttpClient client(port_);
  EXPECT_EQ(client.ask("GET", "/healthz")->body, "{\"status\":\"ok\"}\n");
  const std::string model = client.ask("GET", "/v1/model")->body;
  EXPECT_NE(model.find(R"({"snapshot":"pass-00000",)"), std::string::npos) << model;
  EXPECT_NE(model.find(R"({"name":"C1","type":"hash"})"), std::string::npos) << model;
  std::smatch table;
  ASSERT_TRUE(
      std::regex_search(model, table, std::regex(R"re("name":"([^"]+)","kind":"table")re")));
  ASSERT_EQ(shell("paddle export --snapshot=save/pass-00000 --parameter=" + std::string(table[1]) +
                  " >rows.txt"),
            0);
  const std::string first = read("rows.txt").substr(0, read("rows.txt").find('\n'));
  const std::string id = first.substr(0, first.find(' '));
  const std::string values =
      std::regex_replace(first.substr(first.find(' ') + 1), std::regex(" "), ",");
  const auto rows = client.ask("POST", "/v1/rows", fmt::format(R"({{"ids":[{},12345]}})", id));
  EXPECT_EQ(rows->body,
            fmt::format("{{\"parameter\":\"{}\",\"rows\":[{{\"id\":{},\"values\":[{}]}},"
                        "{{\"id\":12345,\"values\":null}}]}}\n",
                        std::string(table[1]), id, values));
  for (const char* wrong : {"", "[", "[1]", R"({"ids":[-1]})", R"({"ids":3})", R"({"id":[3]})",
                            R"({"ids":["a"]})", R"({"parameter":"none","ids":[1]})"})
    EXPECT_EQ(client.ask("POST", "/v1/rows", wrong)->status, 400) << wrong;
  const std::string metrics = client.ask("GET", "/metrics")->body;
  for (const std::string line :
       {"paddle_serve_requests_total{path=\"/v1/rows\",code=\"400\"} 8\n",
        "paddle_serve_requests_total{path=\"/v1/rows\",code=\"200\"} 1\n",
        "paddle_serve_rows_total 2\n", "paddle_serve_absent_rows_total 1\n",
        "paddle_serve_request_seconds_count{path=\"/v1/rows\"} 9\n",
        "paddle_serve_connections 1\n"})
    EXPECT_NE(metrics.find(line), std::string::npos) << line << metrics;
}

TEST_F(Serving, NamesAFolderThatIsNot) {
  EXPECT_EQ(shell("paddle serve --port=0 --snapshot=nowhere"), 2);
  EXPECT_NE(read("out").find("nowhere: there is no such folder"), std::string::npos) << read("out");
  EXPECT_NE(read("out").find("hint: --snapshot names a pass-0000N folder"), std::string::npos);
}

TEST_F(Serving, NamesWhatIsWrong) {
  const std::string records = read("ctr_dnn/data/test.txt");
  start("save");
  HttpClient client(port_);
  const std::string two = records.substr(0, records.find('\n', records.find('\n') + 1) + 1);
  const auto bad = client.ask("POST", "/v1/predict", two + "no clicks\n" + two, kText);
  EXPECT_EQ(bad->status, 400);
  EXPECT_EQ(bad->body, "{\"error\":{\"message\":\"line 3: 1 fields, not 40\"}}\n");
  EXPECT_NE(
      client.ask("POST", "/v1/predict", "{}\n", kJson)->body.find("line 1: 'dense' is missing"),
      std::string::npos);
  EXPECT_NE(client.ask("POST", "/v1/predict", "{\"dnse\":1}", kJson)->body.find("line 1: "),
            std::string::npos);
  EXPECT_EQ(client.ask("POST", "/v1/predict", std::string(1U << 20U, '['), kJson)->status, 400);
  EXPECT_EQ(client.ask("GET", "/nothing")->status, 404);
  const auto method = client.ask("GET", "/v1/predict");
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->headers.at("allow"), "POST");
  EXPECT_EQ(client.ask("POST", "/v1/predict", two, kText)->status, 200) << "the same connection";
}

TEST_F(Serving, AnswersHeadAsGetWithoutABody) {
  start("save");
  HttpClient client(port_);
  const auto got = client.ask("GET", "/v1/model", "", "");
  ASSERT_TRUE(got);
  // On one connection: a body that nobody expects would be taken for the next reply.
  for (const auto& [path, status] : {std::pair("/v1/model", 200), std::pair("/nowhere", 404)}) {
    const auto head = client.ask("HEAD", path);
    ASSERT_TRUE(head) << path;
    EXPECT_EQ(head->status, status) << path;
    EXPECT_TRUE(head->body.empty());
    EXPECT_NE(head->headers.at("content-length"), "0");
  }
  const auto again = client.ask("HEAD", "/v1/model");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->headers.at("content-length"), std::to_string(got->body.size()));
  EXPECT_EQ(ask("HEAD", "/v1/predict").status, 405);
  EXPECT_EQ(ask("DELETE", "/v1/model").headers.at("allow"), "GET, HEAD");
}

TEST_F(Serving, WithoutATokenIsForThisMachineByName) {
  start("save");
  const auto status = [&](const std::string& host) {
    HttpClient client(port_);
    client.send(fmt::format("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", host));
    return client.receive().value_or(HttpReply()).status;
  };
  for (const char* const host :
       {"localhost", "LocalHost:8500", "127.0.0.1:1", "127.1.2.3", "[::1]:8500", "[::1]", ""})
    EXPECT_EQ(status(host), 200) << host;
  for (const char* const host :
       {"evil.example", "evil.example:8500", "127.0.0.1.evil.example", "localhost.evil.example",
        "10.0.0.1", "[2001:db8::1]", "[", "[]", "127.1", ":8500", "localhost@evil.example"})
    EXPECT_EQ(status(host), 421) << host;
}

TEST_F(Serving, TakesNewerSnapshotsWithoutAFailedRequest) {
  constexpr int kReloads = 40;
  const std::string records = read("ctr_dnn/data/test.txt");
  const std::string scores[2] = {predicted("save/pass-00000"), predicted("save/pass-00001")};
  ASSERT_NE(scores[0], scores[1]);
  fs::create_directories(*folder_ / "served");
  const auto put = [&](int number) {
    fs::copy(*folder_ / fmt::format("save/pass-0000{}", number % 2), *folder_ / "coming",
             fs::copy_options::recursive);
    fs::rename(*folder_ / "coming", *folder_ / fmt::format("served/pass-{:05}", number));
  };
  put(0);
  start("served", {"--poll_milliseconds=1"});
  if (HasFatalFailure()) return;
  std::atomic<bool> is_over = false;
  std::atomic<int> asked = 0, failed = 0;
  std::atomic<int> of_model[2] = {0, 0};
  const auto load = [&] {
    HttpClient client(port_);
    while (!is_over) {
      const auto reply = client.ask("POST", "/v1/predict", records, kText);
      ++asked;
      if (!reply || reply->status != 200) {
        ++failed;
        return;
      }
      for (int i = 0; i < 2; ++i) of_model[i] += reply->body == scores[i] ? 1 : 0;
    }
  };
  std::thread first(load), second(load);
  for (int number = 1; number <= kReloads && failed == 0; ++number) {
    put(number);
    const std::string name = fmt::format("\"pass-{:05}\"", number);
    int tries = 0;
    while (ask("GET", "/v1/model").body.find(name) == std::string::npos && ++tries < 20'000) {
    }
    EXPECT_LT(tries, 20'000) << name << server_->output();
    fs::remove_all(*folder_ / fmt::format("served/pass-{:05}", number - 1));
  }
  is_over = true;
  first.join();
  second.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(of_model[0] + of_model[1], asked) << "a reply is of one model alone";
  EXPECT_GT(of_model[0], 0);
  EXPECT_GT(of_model[1], 0);
  const std::string metrics = ask("GET", "/metrics").body;
  EXPECT_NE(metrics.find(fmt::format("paddle_serve_reloads_total {}\n", kReloads)),
            std::string::npos)
      << metrics;

  // A damaged one is told, and the model stays.
  fs::copy(*folder_ / "save/pass-00000", *folder_ / "coming", fs::copy_options::recursive);
  std::ofstream(*folder_ / "coming/MANIFEST", std::ios::app) << "damaged";
  fs::rename(*folder_ / "coming", *folder_ / fmt::format("served/pass-{:05}", kReloads + 1));
  ASSERT_TRUE(server_->prints(fmt::format("still serving pass-{:05}", kReloads)))
      << server_->output();
  EXPECT_EQ(ask("POST", "/v1/predict", records, kText).status, 200);
  expect_a_clean_end();
  fs::remove_all(*folder_ / "served");
}

TEST_F(Serving, TakesRequestsOfThoseWhoBearTheToken) {
  const std::string token = "0123456789abcdef0123";
  std::ofstream(*folder_ / "token") << token << "\n";
  const std::string flag = "--token_file=" + *folder_ / "token";
  fs::permissions(*folder_ / "token", fs::perms(0644));
  EXPECT_EQ(shell("paddle serve --snapshot=save --port=0 " + flag), 5);
  EXPECT_EQ(shell("paddle serve --snapshot=save --port=0 --bind=0.0.0.0"), 2);
  fs::permissions(*folder_ / "token", fs::perms(0600));
  start("save", {flag});
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  const auto bearing = [&](const std::string& text) {
    return ask("GET", "/v1/model", "", "Authorization: " + text + "\r\n");
  };
  EXPECT_EQ(ask("GET", "/v1/model").status, 401);
  EXPECT_EQ(bearing("Bearer " + token + "4").status, 401);
  EXPECT_EQ(bearing("Bearer " + token.substr(1) + "4").status, 401);
  EXPECT_EQ(bearing(token).status, 401);
  EXPECT_EQ(bearing("").status, 401);
  EXPECT_EQ(ask("GET", "/nothing").status, 401) << "paths are nobody else's business";
  EXPECT_EQ(ask("POST", "/v1/predict", "x", kText).headers["www-authenticate"], "Bearer");
  EXPECT_EQ(bearing("Bearer " + token).status, 200);
  EXPECT_EQ(server_->output().find(token), std::string::npos);
}

TEST_F(Serving, BoundsMemoryBodiesAndTheQueue) {
  start("save", {"--threads=1", "--queue=1", "--body_bytes=4000000"});
  ask("GET", "/healthz");
  const std::uint64_t before = peak_kilobytes();
  for (const std::string length : {"1000000000", "18446744073709551615", "4000001"}) {
    HttpClient client(port_);
    client.send("POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + length +
                "\r\n\r\n");
    const std::string part(1U << 20U, '1');
    for (int i = 0; i < 64 && client.send(part); ++i) {
    }
    const auto reply = client.receive();  // unless the rest of the body has reset it
    if (reply) {
      EXPECT_EQ(reply->status, 413) << reply->body;
    }
  }
  // Brackets, which cost a parser many times their bytes.
  for (const char* const path : {"/v1/predict", "/v1/rows"}) {
    const HttpReply deep = ask("POST", path, std::string(3'900'000, '['), kJson);
    EXPECT_EQ(deep.status, 400) << path;
    EXPECT_NE(deep.body.find("it is nested more than 64 deep"), std::string::npos) << deep.body;
  }
  HttpClient polite(port_);
  EXPECT_EQ(
      polite
          .ask("POST", "/v1/predict", "", "Content-Length: 1000000000\r\nExpect: 100-continue\r\n")
          ->status,
      413);
  EXPECT_TRUE(polite.is_closed(std::chrono::seconds(30)));
  HttpClient chunked(port_);
  chunked.send(
      "POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk = "10000\r\n" + std::string(65536, '1') + "\r\n";
  for (int i = 0; i < 2000 && chunked.send(chunk); ++i) {
  }
  const auto refused = chunked.receive();
  if (refused) {
    EXPECT_EQ(refused->status, 413) << refused->body;
  }
  EXPECT_LT(peak_kilobytes(), before + 60'000);

  // One request is scored, one waits, and the others are told to come again.
  const std::string records = read("ctr_dnn/data/test.txt");
  std::string large;
  while (large.size() + records.size() < 4'000'000) large += records;
  std::mutex mutex;
  std::multiset<int> statuses;
  std::string retry_after;
  std::vector<std::thread> clients;
  for (int i = 0; i < 6; ++i) {
    clients.emplace_back([&] {
      HttpReply reply = ask("POST", "/v1/predict", large, kText);
      const std::scoped_lock lock(mutex);
      statuses.insert(reply.status);
      if (reply.status == 503) retry_after = reply.headers["retry-after"];
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_GE(statuses.count(200), 2U);
  EXPECT_GE(statuses.count(503), 1U);
  EXPECT_EQ(statuses.count(200) + statuses.count(503), 6U);
  EXPECT_EQ(retry_after, "1");
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  expect_a_clean_end();
}

// A table of wide rows, so that short requests take much memory.
constexpr const char* kWideJob = R"([data]
train = "train.txt"
format = "multislot"
[[data.slot]]
name = "tags"
type = "ids"
[[data.slot]]
name = "label"
type = "id"
[[layer]]
name = "all_tags"
type = "embedding"
input = ["tags"]
pooling = "sum"
size = 1024
weight = { sparse = true }
[[layer]]
name = "score"
type = "fc"
input = ["all_tags"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "label"
[train]
passes = 1
)";

TEST_F(Serving, GivesTheMemoryOfLargeRequestsBack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizer keeps freed memory";
#endif
  folder_->write("wide/train.txt", "2 3 4 1 0\n2 3 5 1 1\n");
  folder_->write("wide/job.toml", kWideJob);
  ASSERT_EQ(shell("paddle train --local --config=wide/job.toml --save_dir=wide/save"), 0)
      << read("out");
  start("wide/save", {"--threads=2"});
  const auto list = [](std::size_t count, std::size_t different) {
    std::string ids;
    for (std::size_t i = 0; i < count; ++i)
      ids += fmt::format("{}{}", i > 0 ? "," : "", 3 + i % different);
    return ids;
  };
  const auto record = [&](std::size_t ids) {
    return fmt::format("{{\"tags\":[{}]}}\n", list(ids, ids));
  };
  ASSERT_EQ(ask("POST", "/v1/predict", record(10), kJson).status, 200);
  const std::uint64_t before = resident_kilobytes();
  std::string many;
  for (int i = 0; i < 400; ++i) many += record(1000);
  struct Large {
    std::string path, body;
    int status;
  };
  for (const Large& large : std::vector<Large>{
           {"/v1/predict", record(15'000), 200},  // 60 MiB of rows
           {"/v1/predict", record(400'000), 413},
           {"/v1/predict", many, 200},
           {"/v1/rows", fmt::format("{{\"ids\":[{}]}}", list(400'000, 400'000)), 413},
           {"/v1/rows", fmt::format("{{\"ids\":[{}]}}", list(1000, 1)), 200},
           {"/v1/rows", fmt::format("{{\"ids\":[{}]}}", list(50'000, 1)), 413}}) {
    const auto three_times = [&] {
      HttpClient client(port_);
      for (int i = 0; i < 3; ++i) {
        const auto reply = client.ask("POST", large.path, large.body, kJson);
        ASSERT_TRUE(reply);
        EXPECT_EQ(reply->status, large.status) << reply->body.substr(0, 200);
      }
    };
    std::thread other(three_times);
    three_times();
    other.join();
    // It does so once the reply is on its way.
    const TimePoint end = SteadyClock().now() + std::chrono::seconds(60);
    while (resident_kilobytes() >= before + 20'000 && SteadyClock().now() < end)
      std::this_thread::yield();
    EXPECT_LT(resident_kilobytes(), before + 20'000)
        << large.path << ' ' << large.body.substr(0, 40) << ' ' << large.body.size();
  }
  expect_a_clean_end();
}

TEST_F(Serving, SlowClientsAndNoiseDoNotStopTheOthers) {
  start("save", {"--connections=40", "--client_seconds=2"});
  const std::string records = read("ctr_dnn/data/test.txt");
  const std::string valid = http_request("POST", "/v1/predict", records, kText);
  HttpClient patient(port_);
  ASSERT_EQ(patient.ask("GET", "/healthz")->status, 200);
  std::vector<HttpClient> slow;
  for (int i = 0; i < 30; ++i) {
    slow.emplace_back(port_);
    slow.back().send(std::string_view(valid).substr(0, i % 2 == 0 ? 20 : valid.size() / 2));
    ASSERT_EQ(patient.ask("GET", "/healthz")->status, 200) << i;
  }
  EXPECT_EQ(patient.ask("POST", "/v1/predict", records, kText)->status, 200);
  for (HttpClient& client : slow) EXPECT_TRUE(client.is_closed(std::chrono::seconds(60)));
  slow.clear();

  Rng rng(21);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = valid.substr(0, 400);
    if (i % 3 == 0) bytes.assign(1 + rng.below(3000), ' ');
    const std::uint64_t changes = i % 3 == 0 ? bytes.size() : 1 + rng.below(8);
    for (std::uint64_t change = 0; change < changes; ++change)
      bytes[rng.below(bytes.size())] = static_cast<char>(rng.below(256));
    if (i % 50 == 1) bytes = "GET /healthz HTTP/1.1\r\nX: " + std::string(1U << 20U, 'x');
    HttpClient(port_).send(bytes);  // and goes
  }
  const auto large =
      HttpClient(port_).ask("GET", "/healthz", "", "X: " + std::string(20'000, 'x') + "\r\n");
  EXPECT_TRUE(!large || large->status == 431);
  EXPECT_EQ(patient.ask("POST", "/v1/predict", records, kText)->status, 200);

  // Beyond the limit of connections those give way that never ask.
  std::vector<HttpClient> many;
  for (int i = 0; i < 60; ++i) many.emplace_back(port_);
  EXPECT_EQ(ask("GET", "/healthz").status, 200);
  EXPECT_EQ(patient.ask("GET", "/healthz")->status, 200);
  many.clear();
  expect_a_clean_end();
}

TEST_F(Serving, AnswersTheRequestsUnderWayBeforeItEnds) {
  start("save", {"--threads=1"});
  const std::string records = read("ctr_dnn/data/test.txt");
  std::string large;
  for (int i = 0; i < 40; ++i) large += records;
  HttpClient idle(port_), busy(port_);
  ASSERT_EQ(idle.ask("GET", "/healthz")->status, 200);
  ASSERT_TRUE(busy.send(http_request("POST", "/v1/predict", large, kText)));
  // Once another request on a later connection is answered, the large one has been taken.
  ASSERT_EQ(ask("POST", "/v1/predict", records.substr(0, records.find('\n')), kText).status, 200);
  server_->signal(SIGTERM);
  EXPECT_TRUE(idle.is_closed(std::chrono::seconds(30)));
  const auto reply = busy.receive();
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->status, 200);
  EXPECT_EQ(std::ranges::count(reply->body, '\n'), std::ranges::count(large, '\n'));
  EXPECT_EQ(server_->wait(), 0) << server_->output();
}

}  // namespace
}  // namespace paddle::test
