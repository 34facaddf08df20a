// Fixture of a node whose ssh_config a test writes, on a machine that has OpenSSH.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "remote/launcher/ssh_target.h"
#include "tests/support/temporary_folder.h"

namespace paddle::remote {

using Words = std::vector<std::string>;

// Both outputs of a command, which may fail.
inline std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((command + " 2>&1").c_str(), "r"),
                                                   ::pclose);
  std::string text;
  char buffer[4096];
  for (std::size_t got; (got = std::fread(buffer, 1, sizeof buffer, pipe.get())) > 0;) {
    text.append(buffer, got);
  }
  return text;
}

inline std::string joined(const Words& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

class SshTargetTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (output_of("ssh -V").find("OpenSSH") == std::string::npos) GTEST_SKIP() << "no ssh here";
    ::setenv("PADDLE_TEST_KEY", "/variable", 1);
    ::unsetenv("SSH_AUTH_SOCK");
    std::filesystem::create_directory(folder_ / "conf.d");
    node_.host = "n2";
    node_.name = "node-0";
    node_.ssh_directory = folder_.path();
    node_.allow_proxy_command = true;
  }

  static TimePoint soon() { return SteadyClock().now() + std::chrono::seconds(60); }
  std::string config_file() const { return folder_ / "config"; }
  Error refusal_of(const std::string& config) {
    folder_.write("config", config);
    const auto target = resolve(node_, soon());
    EXPECT_FALSE(target) << config;
    return target ? Error{} : target.error();
  }

  test::TemporaryFolder folder_;
  NodeSpec node_;
};

}  // namespace paddle::remote
