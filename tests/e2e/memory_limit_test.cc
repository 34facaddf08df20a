// A process that gets less memory than it needs, at every limit from next to nothing to enough: it
// ends by name with code 7, and never by a signal, wherever the failing allocation is.
#include <unistd.h>

#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"

namespace paddle::test {
namespace {

constexpr const char* kPrlimit = "/usr/bin/prlimit";
constexpr int kResource = 7;
constexpr std::uint64_t kMegabyte = 1U << 20U;
constexpr int kLimits = 100;

class MemoryLimit : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers take address space of their own";
#endif
    if (::access(kPrlimit, X_OK) != 0) GTEST_SKIP() << "no prlimit";
    job_.write_ngram(1, 100);
  }
  struct Ended {
    int code = -1;
    std::string output;
  };
  Ended train(std::uint64_t limit) {
    std::filesystem::remove_all(job_.save_dir("job"));
    const std::string output = job_.folder() / "printed";
    std::filesystem::remove(output);
    Process process({kPrlimit, fmt::format("--as={}", limit), PADDLE_PROGRAM, "train", "--local",
                     "--config=" + (job_.folder() / "job.toml"), "--num_passes=1",
                     "--save_dir=" + job_.save_dir("job")},
                    output);
    const auto code = process.wait();
    return {code.value_or(-1), process.output()};
  }
  // Whether a whole snapshot is there; nothing else may have its name.
  bool has_snapshot() const {
    const std::string folder = job_.save_dir("job") + "/pass-00000";
    if (!std::filesystem::exists(folder)) return false;
    EXPECT_TRUE(std::filesystem::exists(folder + "/MANIFEST"));
    return true;
  }

  Job job_;
};

TEST_F(MemoryLimit, WhicheverAllocationFailsTheEndIsByName) {
  std::uint64_t fails = 1 * kMegabyte;
  std::uint64_t enough = 16384 * kMegabyte;
  ASSERT_EQ(train(enough).code, 0);
  while (enough - fails > kMegabyte) {
    const std::uint64_t middle = (fails + enough) / 2;
    (train(middle).code == 0 ? enough : fails) = middle;
  }
  int told = 0;
  for (int i = 0; i <= kLimits; ++i) {
    const std::uint64_t limit = enough * static_cast<std::uint64_t>(i) / kLimits;
    const Ended ended = train(limit);
    const bool is_whole = has_snapshot();
    if (ended.code == 0) {
      EXPECT_TRUE(is_whole) << limit;
      continue;
    }
    // The kernel itself refuses to start it.
    const bool is_started = ended.output.find("paddle: ") != std::string::npos;
    if (!is_started) continue;
    ++told;
    EXPECT_EQ(ended.code, kResource) << limit << "\n" << ended.output;
    EXPECT_NE(ended.output.find("hint: "), std::string::npos) << limit << "\n" << ended.output;
  }
  EXPECT_GT(told, kLimits / 2) << "the sweep misses the place";
}

}  // namespace
}  // namespace paddle::test
