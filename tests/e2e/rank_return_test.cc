// Trainers of a group that are killed at any moment and come back, as their supervisors would start
// them: the processes of the others run on, and the result is that of an undisturbed run.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/e2e/supervised.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr auto kLimit = std::chrono::seconds(250);
constexpr Shape kGroup{.trainers = 4, .pservers = 0};

// Lines of metrics, without what a clock has told, and without how far the pass is, which a trainer
// that is back estimates anew.
std::vector<std::string> steady_lines(const std::string& metrics) {
  std::vector<std::string> lines;
  std::istringstream text(metrics);
  for (std::string line; std::getline(text, line);) {
    if (line.find("\"kind\":\"save\"") != std::string::npos) continue;  // a path has the job's name
    for (const char* const key :
         {"examples_per_second", "examples_per_busy_second", "unix_ms", "pass_done"}) {
      const std::size_t begin = line.find(fmt::format("\"{}\":", key));
      if (begin == std::string::npos) continue;
      line.erase(begin, std::min(line.find_first_of(",}", begin), line.size()) - begin);
    }
    lines.push_back(line);
  }
  return lines;
}

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

struct Case {
  const char* name;
  int kills;
  int passes;
  std::vector<std::string> flags = {};
  bool has_gpus = false;
};
void PrintTo(const Case& one, std::ostream* out) {
  *out << one.name;
}

class RankReturn : public testing::TestWithParam<Case> {
 protected:
  std::vector<std::unique_ptr<Supervised>> start(const std::string& name,
                                                 const std::vector<std::string>& flags) {
    const int port = free_ports(static_cast<std::uint16_t>(kGroup.trainers));
    std::vector<std::unique_ptr<Supervised>> all;
    for (int id = 0; id < kGroup.trainers; ++id) {
      all.push_back(supervised_trainer(job, name, kGroup, id, port, flags,
                                       {fmt::format("PADDLE_FAKE_SERIAL={}", id)}));
    }
    return all;
  }
  void run(const std::string& name, const std::vector<std::string>& flags) {
    for (const auto& trainer : start(name, flags)) {
      ASSERT_EQ(trainer->wait(kLimit), 0) << trainer->process().output();
    }
  }
  // Kills trainers, one or two at once, when the last one is back. Returns how many.
  int train_under_kills(const std::string& name, const std::vector<std::string>& flags, int kills) {
    const auto all = start(name, flags);
    const bool has_begun = all[0]->process().prints("Pass=0 Batch=", kLimit);
    EXPECT_TRUE(has_begun) << all[0]->process().output();
    std::vector<int> incarnations(all.size(), 1);
    Rng rng(static_cast<std::uint64_t>(kills));
    int killed = 0;
    Duration longest{};
    while (has_begun && killed < kills) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + rng.below(180)));
      if (std::ranges::any_of(all, [](const auto& one) { return one->has_ended(); })) break;
      const bool are_two = rng.below(5) == 0;
      const auto first = rng.below(all.size());
      const auto second = (first + 1 + rng.below(all.size() - 1)) % all.size();
      const auto times_back = [&] {
        return count_of(all[first]->process().output(),
                        "all trainers go back to their savepoints of step");
      };
      const int before = times_back();
      const TimePoint at = std::chrono::steady_clock::now();
      for (const auto victim : {first, second}) {
        if (victim == second && !are_two) continue;
        all[victim]->kill_and_start();
        ++incarnations[victim];
        ++killed;
      }
      Duration took{};
      while (times_back() == before && took < kLimit && !all[first]->has_ended()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        took = std::chrono::steady_clock::now() - at;
      }
      longest = std::max(longest, took);
    }
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i]->wait(kLimit), 0) << all[i]->process().output();
      EXPECT_EQ(all[i]->incarnation(), incarnations[i]);
    }
    std::printf("killed %d trainers, back within %.2f s\n", killed,
                std::chrono::duration<double>(longest).count());
    return killed;
  }

  Job job{GetParam().has_gpus ? FAKE_GPU_PROGRAM : PADDLE_PROGRAM};
};

TEST_P(RankReturn, EndsWithTheSameBitsTotalsAndLines) {
  const Case& one = GetParam();
  job.write_dense_ngram({700, 0, 800, 500});
  if (std::ranges::count(one.flags, "--set=strategy.uneven=pad") > 0) {
    job.write_dense_ngram({700, 400, 800, 500});
  }
  if (one.has_gpus) job.write_dense_ngram({120, 0, 150, 90});
  if (std::ranges::count(one.flags, "--set=strategy.wire=bf16") > 0) job.widen_ngram(700);
  auto flags = with(kThreePasses,
                    {"--set=train.batch_size=4", "--set=train.log_period=20",
                     "--set=train.test_period=40", "--set=train.snapshots_kept=0",
                     "--set=train.snapshot_seconds=1", fmt::format("--num_passes={}", one.passes)});
  flags = with(flags, one.flags);
  ASSERT_NO_FATAL_FAILURE(run("whole", flags));
  if (one.has_gpus) {
    EXPECT_NE(job.output("whole", 1).find("dense parameters stay on GPU"), std::string::npos);
  }
  EXPECT_GE(train_under_kills("killed", flags, one.kills), std::min(one.kills, 3));
  for (int pass = 0; pass < one.passes; ++pass) {
    EXPECT_TRUE(job.snapshot("whole", pass) == job.snapshot("killed", pass)) << pass;
  }
  EXPECT_EQ(totals_of(job.output("killed", 0)), totals_of(job.output("whole", 0)));
  for (int trainer = 0; trainer < kGroup.trainers; ++trainer) {
    EXPECT_EQ(steady_lines(job.metrics("killed", trainer)),
              steady_lines(job.metrics("whole", trainer)))
        << trainer;
  }
}

// A library that never returns from the end of its sums has threads that share its state with later
// sums of the process.
TEST(StuckSums, Trap31EndTheirProcessAndItsNextIncarnationJoins) {
  Job job(FAKE_GPU_PROGRAM);
  job.write_dense_ngram({300, 300});
  const Shape shape{.trainers = 2, .pservers = 0};
  const auto flags = with(kThreePasses, {"--use_gpu", "--set=optimizer.clip_global_norm=0",
                                         "--set=train.batch_size=4", "--set=train.log_period=5"});
  const auto start = [&](const std::string& name, const std::string& fault) {
    const int port = free_ports(2);
    std::vector<std::unique_ptr<Supervised>> all;
    for (int id = 0; id < 2; ++id) {
      std::vector<std::string> variables{fmt::format("PADDLE_FAKE_SERIAL={}", id)};
      if (id == 0 && !fault.empty()) variables.push_back(fault);
      all.push_back(supervised_trainer(job, name, shape, id, port, flags, variables));
    }
    return all;
  };
  for (const auto& trainer : start("whole", "")) {
    ASSERT_EQ(trainer->wait(kLimit), 0) << trainer->process().output();
  }
  const auto all = start("stuck", "PADDLE_FAKE_ABORT_HANGS=1");
  ASSERT_TRUE(all[0]->process().prints("Pass=0 Batch=", kLimit)) << all[0]->process().output();
  all[1]->kill_and_start();
  EXPECT_EQ(all[0]->wait(kLimit), 4) << all[0]->process().output();
  EXPECT_NE(all[0]->process().output().find("sums between GPUs have not ended"), std::string::npos)
      << all[0]->process().output();
  all[0]->start();
  for (const auto& trainer : all) {
    EXPECT_EQ(trainer->wait(kLimit), 0) << trainer->process().output();
  }
  for (int pass = 0; pass < 3; ++pass) {
    EXPECT_TRUE(job.snapshot("whole", pass) == job.snapshot("stuck", pass)) << pass;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Jobs, RankReturn,
    testing::Values(Case{"Plain", kills_wanted(8), 12},
                    Case{"Best", 3, 4, {"--set=train.best=cost"}},
                    Case{"Padded", 3, 4, {"--set=strategy.uneven=pad"}},
                    Case{"Bf16", 3, 4, {"--set=strategy.wire=bf16"}},
                    Case{
                        "OnGpus", 3, 4, {"--use_gpu", "--set=optimizer.clip_global_norm=0"}, true}),
    [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace paddle::test
