// templates/providers/hcloud and gcloud, with stand-ins for the two clouds' own programs.
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/json_reader.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

class ProviderExample : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (const char* program : {"/usr/bin/python3", "/usr/bin/ssh-keygen"}) {
      if (!fs::exists(program)) GTEST_SKIP() << "no " << program << " here: scripts/deps test";
    }
    folder_.make("bin");
    for (const char* name : {"hcloud", "gcloud", "ssh"})
      fs::create_symlink(CLOUD_PROGRAM, folder_ / "bin" + ("/" + std::string(name)));
    Process key({"/usr/bin/ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder_ / "key"},
                folder_ / "keygen.txt");
    ASSERT_EQ(key.wait(), 0) << key.output();
  }
  // Its exit code; what it printed is in `printed_`.
  int provider(const std::string& command, const std::string& more = "NONE=") {
    const std::string output = folder_ / fmt::format("run-{}", runs_++);
    Process process({TEMPLATES_FOLDER "/providers/" + GetParam(), command}, output,
                    {"PATH=" + (folder_ / "bin") + ":/usr/bin:/bin", "PROVIDER_CLUSTER=lab",
                     "PROVIDER_NODES=2", "SSH_KEY=" + (folder_ / "key"), "PRICE_PER_HOUR=0.05",
                     "CLOUD=" + (folder_ / "servers"), more});
    const int code = process.wait().value_or(-1);
    printed_ = process.output();
    return code;
  }

  TemporaryFolder folder_;
  std::string printed_;
  int runs_ = 0;
};

TEST_P(ProviderExample, CreatesListsAndDestroys) {
  ASSERT_EQ(provider("create", "PROVIDER_DRY_RUN=1"), 0) << printed_;
  EXPECT_EQ(printed_, "lab-0 is new\nlab-1 is new\n");
  ASSERT_EQ(provider("list"), 0) << printed_;
  EXPECT_EQ(printed_, "");
  ASSERT_EQ(provider("create"), 0) << printed_;  // ssh compares the host keys
  EXPECT_NE(printed_.find("lab-1 accepts logins at 192.0.2.2\n"), std::string::npos) << printed_;
  ASSERT_EQ(provider("create"), 0) << printed_;
  EXPECT_NE(printed_.find("lab-0 exists\nlab-1 exists\n"), std::string::npos) << printed_;
  ASSERT_EQ(provider("list"), 0) << printed_;
  const std::string listed = printed_;
  std::istringstream lines(listed);
  int number = 0;
  for (std::string line; std::getline(lines, line); ++number) {
    JsonReader reader({"name", "host", "user", "host_key", "created", "price_per_hour", "state"});
    ASSERT_TRUE(reader.read(line)) << line;
    const auto text = [&](std::size_t key) {
      return reader.find(key) == nullptr ? "" : std::string(reader.find(key)->text());
    };
    EXPECT_EQ(text(0), fmt::format("lab-{}", number));
    EXPECT_EQ(text(1), fmt::format("192.0.2.{}", number + 1));
    EXPECT_EQ(text(2), "train");
    EXPECT_TRUE(text(3).starts_with("ssh-ed25519 AAAA")) << line;
    EXPECT_TRUE(text(4).starts_with("2026-11-27T10:00:00")) << line;
    EXPECT_EQ(text(5), "0.05");
    EXPECT_EQ(text(6), "running");
  }
  EXPECT_EQ(number, 2) << listed;
  ASSERT_EQ(provider("destroy"), 0) << printed_;
  ASSERT_EQ(provider("destroy"), 0) << printed_;
  EXPECT_EQ(TemporaryFolder::read(folder_ / "servers"), "{}");
}

TEST_P(ProviderExample, NamesTheCauseForANode) {
  folder_.write("servers.full", "");
  EXPECT_EQ(provider("create"), 1);
  const std::string cause = GetParam() + ": error: no capacity in this place";
  EXPECT_EQ(printed_, fmt::format("lab-0 is new\n{{\"name\": \"lab-0\", \"error\": \"{0}\"}}\n"
                                  "lab-0: {0}\n",
                                  cause));
}

INSTANTIATE_TEST_SUITE_P(All, ProviderExample, testing::Values("hcloud", "gcloud"),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace paddle::test
