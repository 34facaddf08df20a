// Exports of tables that do not fit in the memory that `paddle export` takes for their rows: three
// times the rows take no more.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/support/process.h"

namespace paddle::test {
namespace {

constexpr std::size_t kWidth = 256;
constexpr std::size_t kIdsOfRecord = 500;
constexpr std::size_t kRows = 80'000;              // 82 MB
constexpr std::uint64_t kAboutEqual = 32U << 20U;  // how buffers are placed

constexpr const char* kJob = R"toml(
[data]
train = "rows.txt"
format = "libsvm"
[[layer]]
name = "row"
type = "embedding"
input = ["features"]
pooling = "mean"
size = {}
weight = {{ initial_std = 1.0, sparse = true }}
[[layer]]
name = "score"
type = "fc"
input = ["row"]
size = 1
[[layer]]
name = "cost"
type = "binary_cross_entropy"
input = ["score"]
label = "label"
[optimizer]
method = "sgd"
learning_rate = 0.001
)toml";

class ExportMemory : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take memory of their own";
#endif
  }
  // Trains a table of that many rows and returns the snapshot.
  std::string train(std::size_t rows) {
    std::string text;
    for (std::size_t row = 0; row < rows; ++row) {
      if (row % kIdsOfRecord == 0) text += row == 0 ? "0" : "\n1";
      text += fmt::format(" {}:1", row);
    }
    const std::string name = std::to_string(rows);
    folder_.write(name + "/rows.txt", text + "\n");
    folder_.write(name + "/job.toml", fmt::format(kJob, kWidth));
    run({"train", "--local", "--config=" + folder_ / (name + "/job.toml"), "--num_passes=1",
         "--save_dir=" + folder_ / (name + "/save")});
    return folder_ / (name + "/save/pass-00000");
  }
  // The peak of its resident memory.
  std::uint64_t run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), PADDLE_PROGRAM);
    Process process(std::move(arguments), folder_ / "printed",
                    {"PATH=/usr/bin:/bin", "TMPDIR=" + folder_.path()});
    EXPECT_EQ(process.wait(std::chrono::seconds(250)), 0) << process.output();
    return process.peak_bytes();
  }

  TemporaryFolder folder_;
};

TEST_F(ExportMemory, DoesNotGrowWithTheTable) {
  const std::string small = train(kRows);
  const std::string large = train(3 * kRows);
  for (const std::string format : {"npy", "npz", "safetensors", "vec"}) {
    const std::string output = folder_ / ("table." + format);
    const auto peak_of = [&](const std::string& snapshot) {
      std::vector<std::string> flags{"export", "--snapshot=" + snapshot, "--format=" + format,
                                     "--output=" + output};
      if (format == "npy" || format == "vec") flags.emplace_back("--parameter=_row.w0");
      return run(std::move(flags));
    };
    const std::uint64_t before = peak_of(small);
    const std::uint64_t peak = peak_of(large);
    const std::uint64_t values = 3 * kRows * kWidth * sizeof(float);
    EXPECT_GT(std::filesystem::file_size(output), values) << format;
    EXPECT_LT(peak, before + kAboutEqual) << format;
    EXPECT_LT(peak, values * 3 / 4) << format;
  }
}

}  // namespace
}  // namespace paddle::test
