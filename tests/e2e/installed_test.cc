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
  EXPECT_TRUE(
      std::filesystem::exists(folder / "usr/lib/python3/dist-packages/paddlectl/__init__.py"))
      << "python3 looks nowhere below this prefix";
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

// A prefix that python3 knows: its own folder there is not the one of /usr.
TEST(Installed, ThePythonModuleIsWherePythonLooks) {
  const TemporaryFolder folder;
  Process asked(
      {"/usr/bin/python3", "-I", "-c",
       "import site; print(*[f for f in site.getsitepackages() if f.startswith('/usr/local/')])"},
      folder / "asked");
  if (asked.wait() != 0 || asked.output().size() < 2) GTEST_SKIP() << "python3 has no /usr/local";
  std::string place = asked.output();
  place.resize(place.find_first_of(" \n"));
  Process install({"/usr/bin/env", "PATH=/usr/bin:/bin", "DESTDIR=" + folder.path(), CMAKE_PROGRAM,
                   "--install", BUILD_FOLDER, "--prefix", "/usr/local"},
                  folder / "installed");
  ASSERT_EQ(install.wait(), 0) << install.output();
  EXPECT_TRUE(std::filesystem::exists(folder.path() + place + "/paddlectl/__init__.py")) << place;
}

}  // namespace
}  // namespace paddle::test
