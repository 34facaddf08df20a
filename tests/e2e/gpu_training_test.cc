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
                                       "--verbose",
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

// A trainer that is alone on a GPU has its tables and its dense parameters there. Costs and the
// snapshots differ from those of pservers by rounding alone, and each goes on from the other's.
TEST_F(GpuTraining, AllParametersLieOnTheCardOfTheOnlyTrainer) {
  prepare();
  const auto on_card = [&](const std::string& name, const std::vector<std::string>& more,
                           std::vector<std::string> environment = {}) {
    std::vector<std::string> arguments{FAKE_GPU_PROGRAM,
                                       "train",
                                       "--config=" + (folder_ / "job.toml"),
                                       "--use_gpu",
                                       "--pservers=",
                                       "--save_dir=" + (folder_ / name),
                                       "--log_period=4",
                                       "--set=train.batch_size=100",
                                       "--set=strategy.dense=collective"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments, std::move(environment));
  };
  const Ended cpu = train(PADDLE_PROGRAM, "cpu", {});
  ASSERT_EQ(cpu.code, 0) << cpu.output;
  const Ended gpu = on_card("gpu", {"--num_passes=1"});
  ASSERT_EQ(gpu.code, 0) << gpu.output;
  EXPECT_NE(gpu.output.find("table 'SparseFeatFactors' is on GPU 0 (Fake)"), std::string::npos)
      << gpu.output;
  EXPECT_NE(gpu.output.find("dense parameters stay on GPU 0 (Fake)"), std::string::npos);
  expect_near(costs(gpu.output), costs(cpu.output));
  const Ended again = on_card("again", {"--num_passes=1"}, {"PADDLE_FAKE_SEED=7"});
  ASSERT_EQ(again.code, 0) << again.output;
  EXPECT_EQ(costs(again.output), costs(gpu.output)) << "whatever order its work runs in";

  for (const char* from : {"cpu", "gpu"}) {
    const std::string init = "--init_model_path=" + (folder_ / from + std::string("/pass-00000"));
    const Ended card = on_card(std::string("card-") + from, {"--num_passes=1", init});
    ASSERT_EQ(card.code, 0) << card.output;
    const Ended host = train(PADDLE_PROGRAM, std::string("host-") + from, {init});
    ASSERT_EQ(host.code, 0) << host.output;
    expect_near(costs(card.output), costs(host.output));
  }
  // A job that was trained so goes on on pservers in its own folder, and the other way round.
  const Ended resumed = train(PADDLE_PROGRAM, "gpu", {"--resume", "--num_passes=2"});
  ASSERT_EQ(resumed.code, 0) << resumed.output;
  const Ended back = on_card("gpu", {"--resume", "--num_passes=3"});
  ASSERT_EQ(back.code, 0) << back.output;
  EXPECT_NE(back.output.find("continuing in pass 3 (pass-00002), after batch 0"), std::string::npos)
      << back.output;
  const Ended exported =
      run({PADDLE_PROGRAM, "export", "--snapshot=" + (folder_ / "gpu/pass-00002"), "--format=npz",
           "--output=" + (folder_ / "model.npz")});
  EXPECT_EQ(exported.code, 0) << exported.output;

  const Ended refused =
      on_card("refused", {"--num_passes=1", "--set=optimizer.clip_global_norm=1"});
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_NE(refused.output.find("clip_norm or clip_global_norm is not supported on GPUs"),
            std::string::npos)
      << refused.output;
  EXPECT_NE(refused.output.find("--pservers 1"), std::string::npos) << refused.output;
  const Ended full = on_card("full", {"--num_passes=1"}, {"PADDLE_FAKE_MEMORY_MIB=6"});
  EXPECT_EQ(full.code, 7) << full.output;
  EXPECT_NE(full.output.find("0 (Fake) has"), std::string::npos) << full.output;
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
