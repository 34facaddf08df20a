#include <regex>

#include "base/fd.h"
#include "cli/commands/commands.h"
#include "tests/e2e/http_client.h"
#include "tests/support/free_ports.h"
#include "tests/unit/cli/commands/commands_fixture.h"

namespace paddle::cli {
namespace {

class DashboardCommandTest : public CommandsTest {
 protected:
  void SetUp() override {
    CommandsTest::SetUp();
    ASSERT_EQ(run({"up", "c.toml"}), 0);
  }
  // Runs the command; `look` is called with the address' port and path, then Ctrl-C is pressed.
  int run_until(std::vector<std::string> options,
                const std::function<void(std::uint16_t, const std::string&)>& look) {
    on_pause_ = [&] {
      const std::string printed = out_.str();
      std::smatch match;
      if (std::regex_search(printed, match, std::regex(R"re(127\.0\.0\.1:(\d+)(/[\w-]+/))re"))) {
        look(static_cast<std::uint16_t>(std::stoul(match[1])), match[2]);
      } else {
        ADD_FAILURE() << printed;
      }
      interrupted_ = true;
    };
    options.insert(options.begin(), "dashboard");
    const int code = run(options);
    interrupted_ = false;
    on_pause_ = {};
    return code;
  }
};

TEST_F(DashboardCommandTest, ServesThePageUntilCtrlC) {
  for (const bool allows : {false, true}) {
    std::vector<std::string> options{"--token-file", "token"};
    if (allows) options.emplace_back("--allow-changes");
    std::uint16_t port = 0;
    std::string path;
    EXPECT_EQ(run_until(options,
                        [&](std::uint16_t at, const std::string& home) {
                          port = at;
                          path = home;
                          const auto page = test::HttpClient(at).ask("GET", home);
                          ASSERT_TRUE(page);
                          EXPECT_EQ(page->status, 200);
                          const std::string changes =
                              std::string("\"allow_changes\": ") + (allows ? "true" : "false");
                          EXPECT_NE(page->body.find(changes), std::string::npos);
                          EXPECT_NE(page->body.find("\"cluster\": \"t\""), std::string::npos);
                        }),
              0)
        << err_.str();
    // The port may be another server's by now, which does not know the token.
    const auto after = test::HttpClient(port).ask("GET", path);
    EXPECT_TRUE(!after || after->status != 200) << "it has ended";
  }
}

TEST_F(DashboardCommandTest, APortThatIsTakenIsAnErrorOnlyIfItWasAskedFor) {
  EXPECT_EQ(run_until({"--token-file", "token"},
                      [&](std::uint16_t port, const std::string&) {
                        EXPECT_EQ(run({"dashboard", "--token-file", "token", "--port",
                                       std::to_string(port)}),
                                  static_cast<int>(Errc::kResource));
                        EXPECT_TRUE(err_has("without --port")) << err_.str();
                      }),
            0);
  EXPECT_EQ(run({"dashboard", "--port", "0"}), static_cast<int>(Errc::kUsage));
  EXPECT_EQ(run({"dashboard", "--port", "65536"}), static_cast<int>(Errc::kUsage));
}

// If another user has the usual port, a page that is still open sends the token to that user.
TEST_F(DashboardCommandTest, ItsTokenIsKeptForTheUsualPortOnly) {
  // Another test may have the port for a moment, or a program for long.
  UniqueFd other = test::listen_on(8642);
  for (int tries = 0; !other && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    other = test::listen_on(8642);
  }
  std::string first;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(run_until({"--token-file", "token"},
                        [&](std::uint16_t port, const std::string& home) {
                          EXPECT_NE(port, 8642);
                          const auto kept = read_file(folder_ + "/token");
                          ASSERT_TRUE(kept);
                          EXPECT_EQ(kept->find(home.substr(1, home.size() - 2)), std::string::npos);
                          EXPECT_NE(home, first);
                          first = home;
                          const auto page = test::HttpClient(port).ask("GET", home);
                          ASSERT_TRUE(page);
                          EXPECT_EQ(page->status, 200);
                        }),
              0)
        << err_.str();
    EXPECT_TRUE(err_has("port 8642 is taken: this address ends with the dashboard")) << err_.str();
  }
}

TEST_F(DashboardCommandTest, ItsPageInTheDocsHasEveryOption) {
  const auto page = read_file(PADDLE_SOURCE_DIR "/docs/dashboard.md");
  ASSERT_TRUE(page);
  std::set<std::string> told, known{"--json"};
  const std::regex row(R"re(\n\| `(--[\w-]+))re");
  for (std::sregex_iterator at(page->begin(), page->end(), row), end; at != end; ++at)
    told.insert((*at)[1]);
  for (const Command& command : all_commands()) {
    if (command.name != "dashboard") continue;
    for (const Option& option : command.invoke().options)
      if (option.name != "--cluster") known.emplace(option.name);
  }
  EXPECT_EQ(told, known);
}

}  // namespace
}  // namespace paddle::cli
