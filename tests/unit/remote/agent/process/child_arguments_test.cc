#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "remote/agent/process/child.h"
#include "tests/support/temporary_folder.h"

namespace paddle::agent {
namespace {

bool has(const Program& program, const std::string& variable) {
  return std::ranges::count(program.variables, variable) == 1;
}

// Sorted: a specification keeps no order.
std::vector<std::tuple<std::string, std::string, int>> told_of(const Program& program) {
  std::vector<std::tuple<std::string, std::string, int>> told;
  for (const wire::agent::Variable& variable : program.gpus.variables())
    told.emplace_back(variable.name(), variable.value(), variable.source());
  std::ranges::sort(told);
  return told;
}

class ArgumentsTest : public ::testing::Test {
 protected:
  ArgumentsTest() : root_{"/srv/lab", UniqueFd()} {
    spec_.set_job("job");
    spec_.set_name("trainer-0");
  }

  test::TemporaryFolder folder_;
  Root root_;
  wire::agent::ProcessSpec spec_;
};

TEST_F(ArgumentsTest, PlaceholdersAreFilledInArgumentsAndVariables) {
  spec_.set_program("bin/paddle");
  spec_.add_arguments("--dir={root}/a:{root}/b");
  spec_.add_arguments("{incarnation}{again}");
  (*spec_.mutable_environment())["RUN"] = "{incarnation} of {root}";
  const Program first = program_of(spec_, root_, 1, {});
  EXPECT_EQ(first.arguments, (std::vector<std::string>{"/srv/lab/bin/paddle",
                                                       "--dir=/srv/lab/a:/srv/lab/b", "1false"}));
  const Program third = program_of(spec_, root_, 3, {});
  EXPECT_EQ(third.arguments[2], "3true");
  EXPECT_TRUE(has(third, "RUN=3 of /srv/lab"));
}

TEST_F(ArgumentsTest, TheSpecificationsVariablesReplaceTheNodes) {
  spec_.set_program("bin/paddle");
  (*spec_.mutable_environment())["LANG"] = "C";
  const Program program = program_of(spec_, root_, 1, {"LANG=de_DE", "LANGUAGE=de", "HOME=/root"});
  EXPECT_TRUE(has(program, "LANG=C"));
  EXPECT_FALSE(has(program, "LANG=de_DE"));
  EXPECT_TRUE(has(program, "LANGUAGE=de")) << "another variable";
  EXPECT_TRUE(has(program, "HOME=/root"));
}

TEST_F(ArgumentsTest, AFirstFolderComesBeforeTheValueFromElsewhere) {
  spec_.add_arguments("/bin/true");
  (*spec_.mutable_first_folders())["PYTHONPATH"] = "{root}/python";
  EXPECT_TRUE(has(program_of(spec_, root_, 1, {}), "PYTHONPATH=/srv/lab/python"));
  EXPECT_TRUE(has(program_of(spec_, root_, 1, {"PYTHONPATH="}), "PYTHONPATH=/srv/lab/python"))
      << "an empty entry would be the working directory";
  const std::vector<std::string> node = {"PYTHONPATH=/node"};
  EXPECT_TRUE(has(program_of(spec_, root_, 1, node), "PYTHONPATH=/srv/lab/python:/node"));
  (*spec_.mutable_environment())["PYTHONPATH"] = "/user";
  const Program program = program_of(spec_, root_, 1, node);
  EXPECT_TRUE(has(program, "PYTHONPATH=/srv/lab/python:/user"));
  EXPECT_FALSE(has(program, "PYTHONPATH=/user"));
}

TEST_F(ArgumentsTest, Trap45OfItsVariablesThoseOfGpusAreToldAndNoOther) {
  spec_.add_arguments("/bin/true");
  auto& environment = *spec_.mutable_environment();
  environment["CUDA_VISIBLE_DEVICES"] = "0,1";
  environment["FLAGS_selected_gpus"] = "1";
  environment["NCCL_DEBUG"] = "INFO";
  environment["WANDB_API_KEY"] = environment["MY_NCCL_TOKEN"] = "secret";
  (*spec_.mutable_sources())["NCCL_DEBUG"] = wire::agent::VARIABLE_FROM_COMMAND_LINE;
  auto& defaults = *spec_.mutable_defaults();
  defaults["NCCL_HOSTID"] = "10.0.0.1";
  defaults["NCCL_SOCKET_IFNAME"] = "=eth0";
  const Program program = program_of(spec_, root_, 1,
                                     {"NCCL_SOCKET_IFNAME=ib0", "NCCL_DEBUG=WARN", "NCCLX=secret",
                                      "HOME=/root", "NCCL_TOPO_FILE=" + std::string(5000, 'x')});
  std::vector<std::string> told;
  for (const auto& [name, value, source] : told_of(program)) {
    told.push_back(name + "=" + value + " " + std::to_string(source));
  }
  EXPECT_EQ(told, (std::vector<std::string>{"CUDA_VISIBLE_DEVICES=0,1 0", "FLAGS_selected_gpus=1 0",
                                            "NCCL_DEBUG=INFO 1", "NCCL_HOSTID=10.0.0.1 0",
                                            "NCCL_SOCKET_IFNAME=ib0 3",
                                            "NCCL_TOPO_FILE=" + std::string(1024, 'x') + "... 3"}));
}

TEST_F(ArgumentsTest, GpuVariablesThatAreNotUtf8DoNotHideTheOthers) {
  spec_.add_arguments("/bin/true");
  std::string cut = "x";
  for (int i = 0; i < 600; ++i) cut += "\u00e9";
  const Program program =
      program_of(spec_, root_, 1, {"CUDA_VISIBLE_DEVICES=0", "NCCL_A=\xff", "NCCL_B=" + cut});
  wire::agent::GpuVariables read;
  ASSERT_TRUE(read.ParseFromString(program.gpus.SerializeAsString()));
  ASSERT_EQ(read.variables_size(), 3);
  EXPECT_EQ(read.variables(1).value(), "\\xff");
  EXPECT_EQ(read.variables(2).value(), cut.substr(0, 1023) + "\\xc3...");
}

TEST_F(ArgumentsTest, AUsersProgramIsLookedUpInItsOwnPath) {
  for (const char* name : {"a/tool", "b/tool"}) {
    folder_.write(name, "#!/bin/sh\n");
    ::chmod((folder_.path() + "/" + name).c_str(), 0755);
  }
  folder_.write("a/data", "not a program");
  const std::string node = "PATH=" + folder_.path() + "/a";
  spec_.add_arguments("tool");
  EXPECT_EQ(program_of(spec_, root_, 1, {node}).arguments[0], folder_.path() + "/a/tool");
  (*spec_.mutable_environment())["PATH"] = "relative:" + folder_.path() + "/b";
  EXPECT_EQ(program_of(spec_, root_, 1, {node}).arguments[0], folder_.path() + "/b/tool");
  spec_.set_arguments(0, "./tool");
  EXPECT_EQ(program_of(spec_, root_, 1, {node}).arguments[0], "./tool");
  spec_.mutable_environment()->clear();
  spec_.set_arguments(0, "data");
  EXPECT_EQ(program_of(spec_, root_, 1, {node}).arguments[0], "/nonexistent/data");
}

// A user's own program passes it on to the engine's client.
TEST_F(ArgumentsTest, AnyProgramMayKeepMemory) {
  spec_.add_arguments("/bin/sh");
  EXPECT_FALSE(*memory_of(spec_));
  spec_.set_keeps_memory(true);
  const auto memory = memory_of(spec_);
  ASSERT_TRUE(memory) << memory.error().message;
  ASSERT_TRUE(*memory);
  Program program = program_of(spec_, root_, 1, {});
  EXPECT_FALSE(program.sends_notices);
  give_memory(program, memory->get());
  EXPECT_TRUE(has(program, "PADDLECTL_MEMORY_FD=120"));
  EXPECT_EQ(std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(memory->get())),
            "/memfd:paddlectl-trainer (deleted)");
}

}  // namespace
}  // namespace paddle::agent
