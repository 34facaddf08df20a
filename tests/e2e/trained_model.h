// Test of a model after its training, by the commands of `paddle` that a user would type.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {

struct Ran {
  int code = -1;
  std::string out, error;
};

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class TrainedModel : public testing::Test {
 protected:
  // `command` is for a shell in the test's folder, which knows $paddle.
  Ran shell(const std::string& command) {
    const std::string out = folder_ / fmt::format("out-{}", runs_);
    const std::string error = folder_ / fmt::format("error-{}", runs_);
    Process process(
        {"/bin/sh", "-c",
         fmt::format("cd {} && {{ {}; }} >{} 2>{}", folder_.path(), command, out, error)},
        folder_ / fmt::format("shell-{}", runs_++),
        {"PATH=" + std::filesystem::path(PADDLE_PROGRAM).parent_path().string() +
         ":/usr/bin:/bin"});
    Ran ran;
    ran.code = process.wait(std::chrono::seconds(280)).value_or(-1);
    ran.out = TemporaryFolder::read(out);
    ran.error = TemporaryFolder::read(error);
    return ran;
  }
  Ran succeed(const std::string& command) {
    Ran ran = shell(command);
    EXPECT_EQ(ran.code, 0) << command << "\n" << ran.out.substr(0, 2000) << ran.error;
    return ran;
  }
  void fails(const std::string& command, int code, const std::string& says,
             const std::string& hint) {
    const Ran ran = shell(command);
    EXPECT_EQ(ran.code, code) << command << ran.error;
    EXPECT_NE(ran.error.find(says), std::string::npos) << command << "\n" << ran.error;
    EXPECT_NE(ran.error.find(hint), std::string::npos) << command << "\n" << ran.error;
    EXPECT_EQ(ran.out, "") << command;
  }

  // Trains the template in one process and takes away all but its data; the lines of tests.
  std::vector<std::string> train(const std::string& name, const std::string& prepare,
                                 const std::string& flags) {
    const std::filesystem::path to = std::filesystem::path(folder_.path()) / name;
    std::filesystem::copy(std::filesystem::path(TEMPLATES_FOLDER) / name, to,
                          std::filesystem::copy_options::recursive);
    succeed(fmt::format("{}/prepare {}", name, prepare));
    succeed(
        fmt::format("paddle train --local --config={0}/job.toml --save_dir={0}-save "
                    "--metrics={0}.jsonl --set=train.snapshots_kept=0 {1}",
                    name, flags));
    job_ = TemporaryFolder::read(to / "job.toml");
    std::filesystem::remove(to / "job.toml");
    std::filesystem::remove(to / "data/dictionary.txt");
    std::filesystem::remove(to / "data/counts.txt");
    std::vector<std::string> tests;
    for (const std::string& line : lines_of(TemporaryFolder::read(folder_ / (name + ".jsonl")))) {
      if (line.starts_with(R"({"kind":"test")")) tests.push_back(line);
    }
    return tests;
  }

  TemporaryFolder folder_;
  std::string job_;  // job.toml of the template trained last
  int runs_ = 0;
};

}  // namespace paddle::test
