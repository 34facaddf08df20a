#include "engine/model/service.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <future>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/engine/model/served_model_fixture.h"

namespace paddle::serve {
namespace {

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

const std::string kOne = R"({"town":1,"tags":[2],"body":[1,2,3]})";
const std::string kTwo = R"({"town":2,"tags":[],"body":[0,0,1]})";

TEST(ServiceTest, TakesJsonInEveryUsualShape) {
  Served served(0);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  const auto ask = [&](const std::string& type, const std::string& body) {
    return served.ask(post("/v1/predict", type, body)).get();
  };
  const std::string lines = ask("application/x-ndjson", kOne + "\n" + kTwo + "\n");
  ASSERT_TRUE(lines.starts_with("200 application/x-ndjson 0\n{\"score\":")) << lines;
  for (const char* const type :
       {"application/json", "Application/JSON", "application/json; charset=utf-8",
        " APPLICATION/X-NDJSON ;a=b", "application/ndjson", "application/vnd.api+json"}) {
    EXPECT_EQ(ask(type, kOne + "\n" + kTwo + "\n"), lines) << type;
  }
  // Over several lines.
  std::string pretty = kOne + kTwo;
  for (std::size_t at = 0; (at = pretty.find(',', at)) != std::string::npos; at += 3)
    pretty.replace(at, 1, ",\n ");
  EXPECT_EQ(ask("application/json", pretty), lines);

  // An array has an array of answers.
  const std::string array = ask("application/json", "[" + kOne + ",\n" + kTwo + "]");
  const std::string answers = lines.substr(lines.find('\n') + 1);
  std::string expected = "[" + answers.substr(0, answers.size() - 1) + "]\n";
  expected.replace(expected.find('\n'), 1, ",");
  EXPECT_EQ(array, "200 application/json 0\n" + expected);
  EXPECT_EQ(ask("application/json", "[]"), "200 application/json 0\n[]\n");
  EXPECT_EQ(ask("application/json", ""), "200 application/x-ndjson 0\n");

  EXPECT_NE(ask("application/json", "[" + kOne + ",{}]").find("record 2: 'town' is missing"),
            std::string::npos);
  EXPECT_NE(ask("application/json", kOne + "\n\n{}").find("line 3: 'town' is missing"),
            std::string::npos);
  EXPECT_NE(ask("application/json", "[" + kOne).find("the array is not closed"), std::string::npos);
  EXPECT_NE(ask("application/json", "no record").find("an array of objects"), std::string::npos)
      << "says what may be sent";
}

TEST(ServiceTest, SaysHowJsonIsToBeSent) {
  Served served(0);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  // curl -d says that it sends a form.
  for (const std::string& body : {kOne, "[" + kOne + "]", "\n " + kOne}) {
    const std::string reply =
        served.ask(post("/v1/predict", "application/x-www-form-urlencoded", body)).get();
    EXPECT_TRUE(reply.starts_with("400 ")) << reply;
    EXPECT_NE(reply.find("JSON needs the field Content-Type: application/json"), std::string::npos)
        << reply;
  }
  EXPECT_EQ(served.ask(post("/v1/predict", "text/csv", "x y\n")).get().find("JSON needs"),
            std::string::npos);
}

// The files of such a job are lines of JSON with labels, so a body of text may be JSON too.
TEST(ServiceTest, SaysHowJsonWithoutALabelIsSentToAJobOfJsonLines) {
  Served served(0);
  std::string job = kJob;
  job.replace(job.find("multislot"), 9, "jsonl");
  served.folder().write("w/job.toml", job);
  served.put(1);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  const auto ask = [&](const std::string& type, const std::string& body) {
    return served.ask(post("/v1/predict", type, body)).get();
  };
  const auto says = [](const std::string& reply, const std::string& text) {
    return reply.starts_with("400 ") && reply.find(text) != std::string::npos;
  };
  const std::string label_hint =
      "with the field Content-Type: application/json (curl --json) a record needs no label";
  const std::string with_label = R"({"label":1,)" + kOne.substr(1);
  for (const char* const type :
       {"application/x-www-form-urlencoded", "text/json", "text/plain", ""}) {
    for (const std::string& body : {kOne, "\n " + kOne, with_label + "\n" + kOne}) {
      const std::string reply = ask(type, body);
      EXPECT_TRUE(says(reply, "'label' is missing")) << type << reply;
      EXPECT_TRUE(says(reply, "any label will do; " + label_hint)) << type << reply;
    }
    const std::string array = ask(type, "[" + with_label + "]");
    EXPECT_TRUE(says(array, "JSON needs the field Content-Type: application/json (curl --json)"))
        << type << array;
    EXPECT_TRUE(ask(type, with_label).starts_with("200 ")) << type;
  }
  EXPECT_TRUE(ask("application/json", kOne).starts_with("200 "));
  EXPECT_FALSE(says(ask("application/json", "{}"), label_hint)) << "it was announced";
  EXPECT_FALSE(says(ask("text/plain", "no record"), "Content-Type")) << "it is not JSON";
}

TEST(ServiceTest, PassesOverAByteOrderMark) {
  Served served(0);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  for (const auto& [type, record] :
       {std::pair<std::string, std::string>{"text/csv", "1 1 1 2 3 1 2 3 1 0\n"},
        {"application/json", kOne}}) {
    const std::string without = served.ask(post("/v1/predict", type, record)).get();
    EXPECT_TRUE(without.starts_with("200 ")) << without;
    EXPECT_EQ(served.ask(post("/v1/predict", type, "\xef\xbb\xbf" + record)).get(), without);
  }
}

TEST(ServiceTest, CountsTheRowsOfARecordBeforeItReadsThem) {
  Served served(0);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  // An id takes 32 bytes of a row and its look-ups.
  const auto record = [](std::size_t ids) {
    std::string tags;
    for (std::size_t i = 0; i < ids; ++i) tags += fmt::format("{}{}", i > 0 ? "," : "", i);
    return fmt::format(R"({{"town":1,"tags":[{}],"body":[1,2,3]}})", tags);
  };
  const auto ask = [&](const std::string& body) {
    return served.ask(post("/v1/predict", "application/json", body)).get();
  };
  const std::string before = ask(kOne);
  const std::string large = ask(kOne + "\n" + record(1'000'000));
  EXPECT_TRUE(large.starts_with("413 ")) << large;
  EXPECT_NE(large.find("line 2: the rows of its ids take 76 MiB, more than the 64 MiB"),
            std::string::npos)
      << large;
  EXPECT_EQ(ask(kOne), before);
  // Many records of some ids each are scored in parts.
  std::string many, one = record(60'000) + "\n";
  for (int i = 0; i < 12; ++i) many += one;
  const std::string alone = ask(one), parts = ask(many);
  ASSERT_TRUE(alone.starts_with("200 ")) << alone;
  EXPECT_EQ(std::ranges::count(parts, '\n'), 13);
  if (Model::joins_requests()) {
    const std::string score = alone.substr(alone.find('\n') + 1);
    std::string expected = alone;
    for (int i = 1; i < 12; ++i) expected += score;
    EXPECT_EQ(parts, expected);
  }
}

TEST(ServiceTest, DescribesItsTablesWithTheirRows) {
  Served served(0);
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_NE(served.description().find(R"({"name":"_all_tags.w0","kind":"table","shape":[100,8]})"),
            std::string::npos)
      << served.description();
  EXPECT_NE(served.description().find(R"({"name":"_towns.w0","kind":"dense","shape":[50,8]})"),
            std::string::npos)
      << served.description();
}

TEST(NewestModelTest, ServesTheBestSnapshotWhereTrainingNamesOne) {
  Served served(0);
  for (const std::uint32_t pass : {1U, 2U}) served.put(pass);
  served.folder().write("save/BEST", "pass-00001\n");
  served.start(1);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(served.model(), "pass-00001");
  served.put(3);
  served.folder().write("save/BEST", "pass-00003\n");
  EXPECT_TRUE(served.comes_to_serve("pass-00003")) << served.model();
  served.folder().write("save/BEST", "pass-00000\n");
  EXPECT_TRUE(served.comes_to_serve("pass-00000")) << served.model();
  // A name of no snapshot, or of a damaged one, gives way to the newest.
  for (const char* const none : {"pass-00007\n", "../save/pass-00001\n", ""}) {
    served.folder().write("save/BEST", "pass-00000\n");
    EXPECT_TRUE(served.comes_to_serve("pass-00000")) << served.model();
    served.folder().write("save/BEST", none);
    EXPECT_TRUE(served.comes_to_serve("pass-00003")) << none << served.model();
  }
  served.folder().write("save/pass-00002/MANIFEST", "damaged");
  served.folder().write("save/BEST", "pass-00002\n");
  served.put(4);
  EXPECT_TRUE(served.comes_to_serve("pass-00004")) << served.model();
}

TEST(NewestModelTest, ServesTheNewestWhereThatIsWanted) {
  Served served(0);
  served.put(1);
  served.folder().write("save/BEST", "pass-00000\n");
  served.start(1, NewestModel::Choice::kNewest);
  if (testing::Test::HasFatalFailure()) return;
  EXPECT_EQ(served.model(), "pass-00001");
  served.put(2);
  EXPECT_TRUE(served.comes_to_serve("pass-00002")) << served.model();
}

// Copied file by file into its place, in the order that is worst: the list of files first.
TEST(NewestModelTest, AnotherSnapshotUnderTheNameOfTheServedOneIsServed) {
  namespace fs = std::filesystem;
  for (const char* const snapshot : {"save", "save/pass-00000"}) {
    Served served(0);
    served.folder().make("other");
    served.put(7, "other/pass-00000");
    served.start(1, NewestModel::Choice::kBest, snapshot);
    if (testing::Test::HasFatalFailure()) return;
    const Request request = post("/v1/predict", "application/json", kOne);
    const std::string old = served.ask(request).get();
    const fs::path from = served.folder() / "other/pass-00000",
                   to = served.folder() / "save/pass-00000";
    fs::remove_all(to);
    fs::create_directories(to);
    fs::copy_file(from / "MANIFEST", to / "MANIFEST");
    const auto looked = [&] { return served.counted("failed_reloads_total"); };
    const TimePoint end = SteadyClock().now() + std::chrono::seconds(60);
    while (looked() == 0 && SteadyClock().now() < end) std::this_thread::yield();
    EXPECT_EQ(served.ask(request).get(), old) << "half a snapshot is none";
    fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::skip_existing);
    std::string now = old;
    while (now == old && SteadyClock().now() < end) now = served.ask(request).get();
    EXPECT_NE(now, old) << snapshot;
  }
}

}  // namespace
}  // namespace paddle::serve
