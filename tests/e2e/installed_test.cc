// An installed paddlectl finds its agent, engine and templates, and needs no source tree.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/free_ports.h"
#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

TEST(Installed, PreparesAClusterAndWritesAWorkspace) {
  const TemporaryFolder folder;
  Process install({CMAKE_PROGRAM, "--install", BUILD_FOLDER, "--prefix", folder / "usr"},
                  folder / "installed");
  ASSERT_EQ(install.wait(), 0) << install.output();
  for (const char* const made :
       {"man/man1/paddlectl.1", "bash-completion/completions/paddlectl",
        "zsh/site-functions/_paddlectl", "fish/vendor_completions.d/paddlectl.fish"}) {
    EXPECT_NE(TemporaryFolder::read(folder / ("usr/share/" + std::string(made))).find("train"),
              std::string::npos)
        << made;
  }
  std::filesystem::create_directory(folder / "work");
  const auto run = [&](std::vector<std::string> arguments) {
    std::vector<std::string> command = {"/usr/bin/env", "--chdir=" + folder.path() + "/work",
                                        folder / "usr/bin/paddlectl"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    Process process(std::move(command), folder / "printed");
    const int code = process.wait().value_or(-1);
    EXPECT_EQ(code, 0) << arguments[0] << ": " << process.output();
    return code == 0;
  };
  EXPECT_TRUE(run({"init"}));
  EXPECT_TRUE(run({"init", "--template", "digits"}));
  EXPECT_TRUE(std::filesystem::exists(folder / "work/digits/job.toml"));
  folder.write("work/local.toml",
               fmt::format("name = \"installed\"\nworkdir = \"{}\"\nport = {}\n[[node]]\n"
                           "launcher = \"local\"\n",
                           folder / "nodes", free_ports(2)));
  EXPECT_TRUE(run({"up", "local.toml"}));
  EXPECT_TRUE(run({"teardown", "--yes", "--discard"}));
  EXPECT_FALSE(std::filesystem::exists(folder / "nodes/installed"));
}

}  // namespace
}  // namespace paddle::test
