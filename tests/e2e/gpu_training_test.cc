// Training on a GPU that is host memory, by the program that has such: tests/support/device.
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"
#include "tests/support/temporary_folder.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

constexpr auto kDeadline = std::chrono::seconds(280);

struct Ended {
  int code = -1;
  std::string output;
};

class GpuTraining : public testing::Test {
 protected:
  GpuTraining() {
    for (const auto& file : fs::directory_iterator(TEMPLATES_FOLDER "/ctr_dnn")) {
      if (file.is_regular_file())
        fs::copy(file, fs::path(folder_.path()) / file.path().filename(),
                 fs::copy_options::copy_symlinks);
    }
  }

  Ended run(std::vector<std::string> arguments, std::vector<std::string> environment = {}) {
    environment.emplace_back("PATH=/usr/bin:/bin");
    Process process(std::move(arguments), folder_ / fmt::format("run-{}.txt", runs_++),
                    std::move(environment));
    const int code = process.wait(kDeadline).value_or(-1);
    return {code, process.output()};
  }

  // Trains a small network on clicks, the snapshot in `name`.
  Ended train(const std::string& program, const std::string& name,
              const std::vector<std::string>& flags, std::vector<std::string> environment = {}) {
    std::vector<std::string> arguments{program,
                                       "train",
                                       "--local",
                                       "--config=" + (folder_ / "job.toml"),
                                       "--save_dir=" + (folder_ / name),
                                       "--num_passes=1",
                                       "--log_period=4",
                                       "--set=train.batch_size=100"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    return run(arguments, std::move(environment));
  }

  void prepare() {
    const Ended made = run({folder_ / "prepare", "--examples", "1500", "--test", "400"});
    ASSERT_EQ(made.code, 0) << made.output;
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

// The numbers after "cost=" and "AvgCost=", in their order.
std::vector<double> costs(const std::string& log) {
  std::vector<double> found;
  for (const std::string mark : {"AvgCost=", " cost="}) {
    for (std::size_t at = log.find(mark); at != std::string::npos; at = log.find(mark, at + 1)) {
      found.push_back(std::stod(log.substr(at + mark.size())));
    }
  }
  return found;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& right) {
  EXPECT_GE(right.size(), 5U);
  ASSERT_EQ(found.size(), right.size());
  for (std::size_t i = 0; i < right.size(); ++i) {
    EXPECT_NEAR(found[i], right[i], 1e-4 * right[i]) << i;
  }
}

TEST_F(GpuTraining, CostsAreTheCpusAndAnyProgramReadsTheSnapshot) {
  prepare();
  const Ended cpu = train(PADDLE_PROGRAM, "cpu", {});
  ASSERT_EQ(cpu.code, 0) << cpu.output;
  const Ended gpu = train(FAKE_GPU_PROGRAM, "gpu", {"--use_gpu"});
  ASSERT_EQ(gpu.code, 0) << gpu.output;
  EXPECT_NE(gpu.output.find("trainer 0 of 1: GPU 0 (Fake), batches of 100"), std::string::npos)
      << gpu.output;
  expect_near(costs(gpu.output), costs(cpu.output));
  const Ended again = train(FAKE_GPU_PROGRAM, "again", {}, {"PADDLE_FAKE_SEED=7"});
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(costs(again.output), costs(gpu.output)) << "whatever order its work runs in";

  const auto tested = [&](const std::string& name) {
    const Ended test =
        run({PADDLE_PROGRAM, "test", "--snapshot=" + (folder_ / (name + "/pass-00000")),
             "--workspace=" + folder_.path()});
    EXPECT_EQ(test.code, 0) << test.output;
    const std::size_t at = test.output.find("cost=");
    EXPECT_NE(at, std::string::npos) << test.output;
    return at == std::string::npos ? 0 : std::stod(test.output.substr(at + 5));
  };
  EXPECT_NEAR(tested("gpu"), tested("cpu"), 1e-4);
}

TEST_F(GpuTraining, Trap30AMachineWithoutAGpuIsToldApart) {
  prepare();
  const std::map<std::string, int> failures{
      {"no_driver", 7}, {"old_driver", 3}, {"missing_library", 7}};
  for (const auto& [failure, code] : failures) {
    const std::string variable = "PADDLE_FAKE_FAILURE=" + failure;
    const Ended refused = train(FAKE_GPU_PROGRAM, failure, {"--use_gpu"}, {variable});
    EXPECT_EQ(refused.code, code) << refused.output;
    EXPECT_NE(refused.output.find("\nhint: "), std::string::npos) << refused.output;
    EXPECT_NE(refused.output.find("CPUs"), std::string::npos) << refused.output;
  }
  const Ended cpus = train(FAKE_GPU_PROGRAM, "auto", {}, {"PADDLE_FAKE_FAILURE=no_driver"});
  EXPECT_EQ(cpus.code, 0) << cpus.output;
  EXPECT_NE(cpus.output.find("training on CPUs: there is no driver"), std::string::npos)
      << cpus.output;
}

TEST_F(GpuTraining, Trap29AGpuThatIsNotThereIsRefused) {
  prepare();
  const Ended refused = train(FAKE_GPU_PROGRAM, "refused", {"--set=train.device=gpu"},
                              {"FLAGS_selected_gpus=2", "PADDLE_FAKE_CARDS=2"});
  EXPECT_EQ(refused.code, 2) << refused.output;
  const Ended last = train(FAKE_GPU_PROGRAM, "last", {"--use_gpu"},
                           {"FLAGS_selected_gpus=1", "PADDLE_FAKE_CARDS=2"});
  EXPECT_EQ(last.code, 0) << last.output;
  EXPECT_NE(last.output.find("GPU 1 (Fake)"), std::string::npos) << last.output;
}

TEST_F(GpuTraining, ACardWithoutMemoryLeftEndsTheJobBeforeAStep) {
  prepare();
  const Ended refused =
      train(FAKE_GPU_PROGRAM, "full", {"--use_gpu"}, {"PADDLE_FAKE_MEMORY_MIB=1"});
  EXPECT_EQ(refused.code, 7) << refused.output;
  EXPECT_NE(refused.output.find("0 (Fake) has"), std::string::npos) << refused.output;
}

TEST_F(GpuTraining, VersionTellsOfTheDriver) {
  const Ended gpu = run({FAKE_GPU_PROGRAM, "version"}, {"PADDLE_FAKE_CARDS=3"});
  EXPECT_NE(gpu.output.find("with_gpu: ON"), std::string::npos) << gpu.output;
  EXPECT_NE(gpu.output.find("    gpu: fake driver of 3 cards"), std::string::npos) << gpu.output;
  const Ended cpu = run({PADDLE_PROGRAM, "version"});
  EXPECT_NE(cpu.output.find("with_gpu: OFF"), std::string::npos) << cpu.output;
}

}  // namespace
}  // namespace paddle::test
