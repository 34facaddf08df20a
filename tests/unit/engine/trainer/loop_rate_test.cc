// The examples a second of its own time, by which slow trainers are told from those that wait.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>
#include <thread>

#include <gtest/gtest.h>

#include "base/fd.h"
#include "tests/unit/engine/trainer/loop_fixture.h"

namespace paddle::trainer {
namespace {

constexpr int kPauseMs = 20;
constexpr double kRateOfTheDisk = 1000.0 / kPauseMs;

// A disk that gives a record each 20 ms.
TEST_F(LoopTest, ReadingIsATrainersOwnTime) {
  const std::string path = folder_ / "train.csv";
  ASSERT_EQ(::unlink(path.c_str()), 0);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  options_.train.passes = 1;
  std::thread disk([&] {
    const UniqueFd pipe(::open(path.c_str(), O_WRONLY));
    for (int record = 0; record < 20; ++record) {
      ::poll(nullptr, 0, kPauseMs);
      const std::string_view line = "1,2\n";
      ASSERT_EQ(::write(pipe.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
    }
  });
  const std::string metrics = run_with_metrics();
  disk.join();
  // A part of the first pause may be over before the trainer begins.
  EXPECT_LE(value_of(metrics, "examples_per_busy_second"), 2 * kRateOfTheDisk) << metrics;
}

// Pservers that answer a push after 20 ms.
TEST_F(LoopTest, WaitingForOthersIsNot) {
  client_.on_push = [] { ::poll(nullptr, 0, kPauseMs); };
  const std::string metrics = run_with_metrics();
  EXPECT_LE(value_of(metrics, "examples_per_second"), kRateOfTheDisk) << metrics;
  EXPECT_GT(value_of(metrics, "examples_per_busy_second"), value_of(metrics, "examples_per_second"))
      << metrics;
}

}  // namespace
}  // namespace paddle::trainer
