// `paddlectl dashboard` over a real job: its address, events as the job trains, and changes.
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/cli_local_test_cluster.h"
#include "tests/e2e/http_client.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

struct Address {
  std::uint16_t port = 0;
  std::string home;  // "/TOKEN/"

  std::string url() const { return fmt::format("http://127.0.0.1:{}{}", port, home); }
};

class DashboardTest : public testing::Test {
 protected:
  // A dashboard with a token file in the cluster's folder, which the address depends on.
  Process start_dashboard(std::vector<std::string> options = {}) {
    std::vector<std::string> all{"dashboard",    "--cluster", "cluster.toml",
                                 "--token-file", "token",     "--json"};
    all.insert(all.end(), options.begin(), options.end());
    Process dashboard = cluster.start(all);
    EXPECT_TRUE(dashboard.prints("\"pid\"")) << dashboard.output();
    return dashboard;
  }
  static Address address_of(const Process& dashboard) {
    const std::regex pattern(
        R"re("url": "http://127\.0\.0\.1:(\d+)(/[\w-]{43}/)", "pid": (\d+))re");
    const std::string output = dashboard.output();
    std::smatch match;
    if (!std::regex_search(output, match, pattern)) {
      ADD_FAILURE() << output;
      return {};
    }
    return {static_cast<std::uint16_t>(std::stoul(match[1])), match[2]};
  }
  void end(Process& dashboard, int signal = SIGINT) {
    dashboard.signal(signal);
    EXPECT_EQ(dashboard.wait(std::chrono::seconds(60)), 0) << dashboard.output();
  }
  void start_job(int passes) {
    cluster.copy_template("quick_start");
    ASSERT_EQ(cluster.prepare("quick_start", {"--shards", "2"}, labelled_texts(400)).code, 0);
    ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
    const Outcome train = cluster.run(
        {"train", "--detach", "--trainers", "2", "--pservers", "1", "--name", "digits", "--set",
         fmt::format("train.passes={}", passes), "--set", "train.batch_size=4", "quick_start"});
    ASSERT_EQ(train.code, 0) << train.output;
  }
  static HttpReply ask(const Address& at, const std::string& method, const std::string& path,
                       const std::string& headers = "") {
    HttpClient client(at.port);
    return client.ask(method, at.home + path, "", headers).value_or(HttpReply{});
  }
  static HttpClient viewer(const Address& at, const std::string& query,
                           const std::string& headers = "") {
    HttpClient one(at.port);
    EXPECT_TRUE(one.send(http_request("GET", at.home + "events" + query, "", headers)));
    const auto head = one.receive();
    EXPECT_TRUE(head && head->status == 200);
    return one;
  }
  // Reads events until one has all the texts, and returns it; "" when none comes in time.
  static std::string event_with(HttpClient& one, const std::vector<std::string>& texts) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (std::chrono::steady_clock::now() < end) {
      const std::string event = one.read_to("\n\n");
      if (event.empty()) return "";
      bool has_all = true;
      for (const std::string& text : texts) has_all &= event.find(text) != std::string::npos;
      if (has_all) return event;
    }
    return "";
  }
  // The output of the line of docs/dashboard.md that stops the job "digits".
  std::string stop_as_in_the_docs(const Address& at) const {
    const std::string page = TemporaryFolder::read(PADDLE_SOURCE_DIR "/docs/dashboard.md");
    std::smatch line;
    EXPECT_TRUE(std::regex_search(page, line, std::regex(R"(\n    (curl -X POST [^\n]*)\n)")));
    Process curl({"/bin/sh", "-c", fmt::format("URL='{}'\n{}", at.url(), line.str(1))},
                 cluster.folder() / "curl.txt");
    EXPECT_EQ(curl.wait(std::chrono::seconds(120)), 0) << curl.output();
    return curl.output();
  }
  void TearDown() override {
    if (!std::filesystem::exists(cluster.folder() / "nodes")) return;
    EXPECT_EQ(cluster.run({"teardown", "--cluster", "cluster.toml", "--yes", "--discard"}).code, 0);
    EXPECT_TRUE(cluster.nothing_left());
  }

  LocalCluster cluster{2};
};

TEST_F(DashboardTest, ShowsAJobUntilItsEnd) {
  ASSERT_NO_FATAL_FAILURE(start_job(60));
  Process dashboard = start_dashboard();
  const Address at = address_of(dashboard);
  EXPECT_NE(ask(at, "GET", "").body.find("\"live\": true"), std::string::npos);
  HttpClient one = viewer(at, "?job=digits");
  EXPECT_NE(event_with(one, {"event: cluster\n", "\"job\": \"digits\"", "\"trainers\": 2"}), "");
  EXPECT_NE(event_with(one, {"event: job\n", "\"role\": \"trainer-1\"", "\"passes\": 60"}), "");
  const HttpReply log = ask(at, "GET", "log?job=digits&process=trainer-0&offset=0");
  EXPECT_EQ(log.status, 200);
  EXPECT_NE(log.body.find("{\"offset\": 0, "), std::string::npos) << log.body;
  EXPECT_NE(log.body.find("trainer-0]"), std::string::npos);
  EXPECT_EQ(ask(at, "GET", "log?job=digits&process=trainer-7").status, 404);
  EXPECT_NE(ask(at, "GET", "metrics").body.find("paddle_node_up{"), std::string::npos);
  EXPECT_NE(event_with(one, {"event: cluster\n", "\"is_running\": false", "\"pass\": 59"}), "")
      << "the end";
  EXPECT_EQ(ask(at, "POST", "stop?job=digits", "X-Paddlectl: 1\r\n").status, 403);
  end(dashboard, SIGTERM);
  EXPECT_TRUE(one.is_closed(std::chrono::seconds(60)));
}

TEST_F(DashboardTest, StopsAJobAndGoesOnAfterItWasKilled) {
  ASSERT_NO_FATAL_FAILURE(start_job(1'000'000));
  const std::vector<std::string> options{"--allow-changes", "--port",
                                         std::to_string(free_ports(1))};
  std::optional<Process> dashboard(start_dashboard(options));
  const Address at = address_of(*dashboard);
  HttpClient one = viewer(at, "");
  EXPECT_NE(event_with(one, {"\"job\": \"digits\"", "\"is_running\": true"}), "");
  dashboard->signal(SIGKILL);
  EXPECT_EQ(dashboard->wait(), 128 + SIGKILL);
  EXPECT_TRUE(one.is_closed(std::chrono::seconds(60)));
  dashboard.emplace(start_dashboard(options));
  EXPECT_EQ(address_of(*dashboard).url(), at.url());
  HttpClient again = viewer(at, "?job=digits", "Last-Event-ID: 0123456789abcdef-7\r\n");
  EXPECT_NE(event_with(again, {"event: job\n", "\"configuration\""}), "") << "everything again";

  EXPECT_EQ(ask(at, "POST", "stop?job=digits").status, 403) << "without the field";
  const HttpReply unknown = ask(at, "POST", "stop?job=other", "X-Paddlectl: 1\r\n");
  EXPECT_EQ(unknown.status, 404) << unknown.body;
  const HttpReply process =
      ask(at, "POST", "restart?job=digits&process=trainer-7", "X-Paddlectl: 1\r\n");
  EXPECT_EQ(process.status, 404) << process.body;
  const std::string answer = stop_as_in_the_docs(at);
  EXPECT_NE(answer.find("{\"done\": \"digits: "), std::string::npos) << answer;
  EXPECT_NE(event_with(again, {"event: cluster\n", "\"is_running\": false"}), "");
  end(*dashboard);
}

TEST_F(DashboardTest, SaysThatAJobIsRemoved) {
  ASSERT_NO_FATAL_FAILURE(start_job(1));
  ASSERT_EQ(cluster.run({"wait", "digits"}).code, 0);
  Process dashboard = start_dashboard();
  const Address at = address_of(dashboard);
  HttpClient one = viewer(at, "?job=digits");
  EXPECT_NE(event_with(one, {"event: job\n", "\"configuration\""}), "");
  ASSERT_EQ(cluster.run({"rm", "digits", "--yes", "--discard"}).code, 0);
  EXPECT_NE(event_with(one, {"event: gone\n", "{\"job\": \"digits\"}"}), "");
  end(dashboard);
}

TEST_F(DashboardTest, ItsAddressOutlivesIt) {
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  const std::regex address(R"re((^|\n)http://127\.0\.0\.1:\d+(/[\w-]{43}/)\n)re");
  const std::string port = std::to_string(free_ports(1));
  std::string home;
  for (int i = 0; i < 2; ++i) {
    Process dashboard({"/usr/bin/env", "-C", cluster.folder().path(),
                       "XDG_STATE_HOME=" + (cluster.folder() / "state"), PADDLECTL_PROGRAM,
                       "dashboard", "--cluster", "cluster.toml", "--port", port},
                      cluster.folder() / fmt::format("dashboard-{}.txt", i));
    ASSERT_TRUE(dashboard.prints("/\n")) << dashboard.output();
    const std::string output = dashboard.output();
    std::smatch match;
    ASSERT_TRUE(std::regex_search(output, match, address)) << output;
    if (i == 0) home = match[2];
    EXPECT_EQ(match[2], home);
    end(dashboard);
  }
  const std::string file = cluster.folder() / "state/paddlectl/dashboard-token";
  EXPECT_EQ(TemporaryFolder::read(file), home.substr(1, home.size() - 2) + "\n");
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0600));
}

TEST_F(DashboardTest, ListensOnThisMachineOnly) {
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  Process dashboard = start_dashboard();
  const Address at = address_of(dashboard);
  // /proc/net/tcp has local addresses in hexadecimal, and state 0A for those that listen.
  const auto listens_at = [&](const char* file, const std::string& address) {
    std::ifstream table(file);
    const std::string wanted = fmt::format(" {}:{:04X} ", address, at.port);
    for (std::string line; std::getline(table, line);)
      if (line.find(wanted) != std::string::npos && line.find(" 0A ") != std::string::npos)
        return true;
    return false;
  };
  EXPECT_TRUE(listens_at("/proc/net/tcp", "0100007F"));
  EXPECT_FALSE(listens_at("/proc/net/tcp", "00000000"));
  EXPECT_FALSE(listens_at("/proc/net/tcp6", std::string(32, '0')));

  const Outcome taken = cluster.run({"dashboard", "--cluster", "cluster.toml", "--token-file",
                                     "token", "--port", std::to_string(at.port)});
  EXPECT_EQ(taken.code, 7);
  EXPECT_TRUE(taken.says("without --port")) << taken.output;
  end(dashboard);
}

TEST_F(DashboardTest, TakesAnotherPortAndSaysSo) {
  ASSERT_EQ(cluster.run({"up", "cluster.toml"}).code, 0);
  // One of the two, or another program, has the usual port.
  Process first = start_dashboard();
  Process second = start_dashboard();
  EXPECT_NE(address_of(first).port, address_of(second).port);
  EXPECT_NE(address_of(first).home, address_of(second).home) << "it ends with the dashboard";
  EXPECT_NE(second.output().find("port 8642 is taken"), std::string::npos) << second.output();
  EXPECT_EQ(ask(address_of(second), "GET", "").status, 200);
  end(first);
  end(second);
}

TEST_F(DashboardTest, ATokenThatOthersMayReadIsRefused) {
  cluster.folder().write("token", std::string(43, 'a') + "\n");
  std::filesystem::permissions(cluster.folder() / "token", std::filesystem::perms(0644));
  const Outcome refused =
      cluster.run({"dashboard", "--cluster", "cluster.toml", "--token-file", "token"});
  EXPECT_EQ(refused.code, 5) << refused.output;
  EXPECT_TRUE(refused.says("chmod 600")) << refused.output;
}

}  // namespace
}  // namespace paddle::test
