// Output of `paddlectl render`, and what runs it.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"
#include "tests/support/slurm.h"

namespace paddle::test {

namespace fs = std::filesystem;

class PlatformsFixture : public testing::Test {
 protected:
  // Its exit code and what it printed.
  std::pair<int, std::string> run(std::vector<std::string> command,
                                  const std::vector<std::string>& more = {}) {
    const std::string output = folder() / "printed";
    fs::remove(output);
    std::vector<std::string> environment{"PATH=/usr/sbin:/usr/bin:/bin", "HOME=" + folder().path()};
    environment.insert(environment.end(), more.begin(), more.end());
    Process process(std::move(command), output, environment);
    const int code = process.wait().value_or(-1);
    return {code, process.output()};
  }
  // The file it was written to.
  std::string render(const std::string& platform, const std::vector<std::string>& more = {},
                     int trainers = 2) {
    std::vector<std::string> command{PADDLECTL_PROGRAM,
                                     "render",
                                     platform,
                                     folder().path(),
                                     fmt::format("--trainers={}", trainers),
                                     "--name=ngram"};
    command.insert(command.end(), more.begin(), more.end());
    const auto [code, text] = run(command);
    EXPECT_EQ(code, 0) << text;
    return folder().write(platform, text);
  }
  std::pair<int, std::string> run_under_openmpi(const std::string& script, std::uint16_t ports) {
    return run({"/bin/sh", script, "--allow-run-as-root", "--oversubscribe"},
               {fmt::format("PORT={}", free_ports(ports))});
  }
  // Its exit code is 77 where the Slurm itself cannot run here.
  std::pair<int, std::string> run_under_slurm(const std::string& script, std::uint16_t ports) {
    constexpr const char* kBatch =
        "timeout 50 sbatch --wait --output=\"$1\" \"$0\"; c=$?; cat \"$1\"; exit $c";
    return run({"/bin/bash", SLURM_SCRIPT, folder() / "slurm-daemons", "1", "/bin/sh", "-c", kBatch,
                script, folder() / "slurm.log"},
               {fmt::format("PORT={}", free_ports(ports)),
                fmt::format("CONTROL_PORTS={}", free_ports(2))});
  }
  // A snapshot in a folder of output/ whose name begins so; and no secret beside it.
  void expect_trained(const std::string& prefix, int pass) {
    int found = 0;
    for (const auto& run : fs::directory_iterator(folder() / "output")) {
      if (!run.path().filename().string().starts_with(prefix)) continue;
      found += fs::exists(run.path() / fmt::format("pass-{:05}/MANIFEST", pass)) ? 1 : 0;
      EXPECT_FALSE(fs::exists(run.path() / "job.key"));
    }
    EXPECT_EQ(found, 1);
  }
  const TemporaryFolder& folder() const { return job_.folder(); }

  Job job_;
};

}  // namespace paddle::test
