// A job stopped in the middle of a pass and resumed later, with the same bits.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr int kResumable = static_cast<int>(Errc::kResumable);

// The one directory "pass-0000N-BBBBBB" of the job, or "".
std::string stopped_snapshot(const Job& job, const std::string& name) {
  for (const auto& entry : std::filesystem::directory_iterator(job.save_dir(name))) {
    const std::string found = entry.path().filename();
    if (found.size() > std::string("pass-00000").size()) return found;
  }
  return "";
}

// "MANIFEST" flips a bit in its middle, "MANIFEST:empty" cuts it to nothing, "MANIFEST:gone"
// removes it.
void damage(const std::string& snapshot, const std::string& what) {
  const std::string path = snapshot + "/" + what.substr(0, what.find(':'));
  std::string bytes = TemporaryFolder::read(path);
  if (what.ends_with(":gone")) {
    std::filesystem::remove(path);
    return;
  }
  char& middle = bytes.at(bytes.size() / 2);
  middle = static_cast<char>(middle ^ 1);
  if (what.ends_with(":empty")) bytes.clear();
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

// Runs two trainers and two pservers. In the middle of the second pass, sends a stop signal to the
// trainers with the ids `stopped`.
void run_and_stop(Job& job, const std::string& name, const std::vector<int>& stopped,
                  const std::vector<std::string>& flags) {
  const Shape shape{.trainers = 2, .pservers = 2};
  const int port = free_ports(4);
  std::vector<Process> pservers;
  for (int id : {0, 1}) pservers.push_back(job.start_pserver(name, shape, id, port));
  for (const Process& pserver : pservers) ASSERT_TRUE(pserver.prints("READY pserver"));
  std::vector<Process> trainers;
  for (int id : {0, 1}) trainers.push_back(job.start_trainer(name, shape, id, port, flags));
  // With a sanitizer on a busy machine the first pass takes minutes.
  ASSERT_TRUE(trainers[0].prints("Pass=1 Batch=10 ", std::chrono::seconds(240)))
      << trainers[0].output();
  for (const int id : stopped) trainers[static_cast<std::size_t>(id)].signal(SIGTERM);
  for (Process& trainer : trainers) {
    EXPECT_EQ(trainer.wait(), kResumable) << trainer.output();
    EXPECT_NE(trainer.output().find("stopped on request in pass 2 (pass-00001), after batch"),
              std::string::npos);
  }
  for (Process& pserver : pservers) EXPECT_EQ(pserver.wait(), 0) << pserver.output();
}

TEST(StopResume, AJobStoppedInTheMiddleOfAPassEndsWithTheSameBits) {
  Job job;
  job.write_ngram(2, 400);
  const std::vector<std::string> flags{
      "--num_passes=3", "--set=train.log_period=1", "--set=optimizer.learning_rate_schedule=poly",
      "--set=optimizer.learning_rate_decay_a=0.01", "--set=optimizer.learning_rate_decay_b=0.5"};
  ASSERT_TRUE(job.run("whole", {.trainers = 2, .pservers = 2}, flags));
  for (const std::vector<int>& stopped : {std::vector<int>{0, 1}, std::vector<int>{1}}) {
    const std::string name = fmt::format("parts{}", stopped.size());
    run_and_stop(job, name, stopped, flags);
    EXPECT_TRUE(stopped_snapshot(job, name).starts_with("pass-00001-")) << name;
    // Resumed on another number of pservers and ports, from the snapshot with the most progress.
    std::vector<std::string> more = flags;
    more.emplace_back("--resume");
    more.emplace_back("--set=train.snapshots_kept=9");
    const Shape other{.trainers = 2, .pservers = 1, .ports_num = 3, .ports_num_for_sparse = 2};
    ASSERT_TRUE(job.run(name, other, more));
    EXPECT_NE(job.output(name, 1).find("continuing in pass 2 (pass-00001), after batch"),
              std::string::npos);
    EXPECT_EQ(stopped_snapshot(job, name), "") << "it is of no use once its pass is saved";
    auto whole = job.snapshot("whole", 2);
    auto parts = job.snapshot(name, 2);
    for (const char* parameter : {"_hidden.w0", "_output.w0", "_output.w0.state"}) {
      ASSERT_TRUE(whole.contains(parameter)) << parameter;
      EXPECT_EQ(whole[parameter], parts[parameter]) << parameter;
    }
  }
}

// It waits for the other trainer, or for the pserver.
TEST(StopResume, ATrainerThatHasNotJoinedEndsAtOnceAndSaysSo) {
  Job job;
  job.write_dense_ngram({5, 5});
  for (const int pservers : {0, 1}) {
    for (const int signal : {SIGTERM, SIGINT}) {
      const std::string name = fmt::format("job{}-{}", pservers, signal);
      const Shape shape{.trainers = 2, .pservers = pservers};
      Process trainer = job.start_trainer(name, shape, 0, free_ports(shape.ports()), {});
      ASSERT_TRUE(trainer.prints("trainer 0 of 2: ")) << trainer.output();
      trainer.signal(signal);
      EXPECT_EQ(trainer.wait(std::chrono::seconds(20)), static_cast<int>(Errc::kInterrupted));
      EXPECT_NE(trainer.output().find("interrupted before it had joined the job"),
                std::string::npos)
          << trainer.output();
    }
  }
}

TEST(StopResume, AnyStrategyStopsAndGoesOn) {
  for (const char* const strategy : {"async", "half_async", "geo"}) {
    Job job;
    job.write_ngram(2, 8000);  // passes long enough for the signal to come within the second
    std::vector<std::string> flags{"--num_passes=2", "--set=train.log_period=1"};
    if (std::string_view(strategy) == "geo")
      flags.emplace_back("--set=strategy.update_frequency=5");
    for (const char* kind : {"dense", "sparse"}) {
      flags.push_back(fmt::format("--set=strategy.{}={}", kind, strategy));
    }
    run_and_stop(job, "job", {0, 1}, flags);
    flags.emplace_back("--resume");
    ASSERT_TRUE(job.run("job", {.trainers = 2}, flags)) << strategy;
    EXPECT_TRUE(job.snapshot("job", 1).contains("MANIFEST")) << strategy;
  }
}

TEST(StopResume, TheMiddleOfAPassIsForAsManyTrainers) {
  Job job;
  job.write_ngram(2, 400);
  const std::vector<std::string> flags{"--num_passes=2", "--set=train.log_period=1"};
  run_and_stop(job, "job", {0}, flags);
  Process alone = job.start_local("job", {"--num_passes=2", "--resume"});
  EXPECT_EQ(alone.wait(), static_cast<int>(Errc::kUsage));
  EXPECT_NE(alone.output().find("from the middle of pass 2 (pass-00001), which 2 trainers shared\n"
                                "hint: continue with 2 trainers"),
            std::string::npos)
      << alone.output();
}

// The place in the data would be that of other records.
TEST(StopResume, WhatMayNotChangeWithinAPassIsRefusedByNameAndTheOldSettingsGoOn) {
  Job job;
  job.write_ngram(1, 8000);
  const std::vector<std::string> flags{"--num_passes=2", "--set=train.log_period=1",
                                       "--set=train.shuffle_records=50"};
  Process first = job.start_local("job", flags);
  ASSERT_TRUE(first.prints("Pass=0 Batch=10 ")) << first.output();
  first.signal(SIGTERM);
  ASSERT_EQ(first.wait(), kResumable) << first.output();
  const auto resume = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = flags;
    all.emplace_back("--resume");
    all.insert(all.end(), more.begin(), more.end());
    Process process = job.start_local("job", all);
    const auto code = process.wait(std::chrono::seconds(60));
    return std::pair(code, process.output());
  };
  const std::vector<std::array<std::string, 3>> changes{
      {"--set=seed=2", "seed=1, not 2", "--set seed=1"},
      {"--set=train.shuffle_records=0", "train.shuffle_records=50, not 0",
       "--set train.shuffle_records=50"},
      {"--set=data.files_at_once=2", "data.files_at_once=1, not 2", "--set data.files_at_once=1"},
      {"--set=data.on_bad_record=skip", "another [data] section", "model/job.toml"},
      {"--set=data.test_fraction=0.1", "another [data] section", "model/job.toml"}};
  for (const auto& [flag, named, hint] : changes) {
    const auto [code, output] = resume({flag});
    EXPECT_EQ(code, static_cast<int>(Errc::kUsage)) << output;
    EXPECT_NE(output.find("from the middle of pass 1 (pass-00000), which began with " + named),
              std::string::npos)
        << output;
    EXPECT_NE(output.find(hint), std::string::npos) << output;
  }
  const std::string data = job.folder() / "data/train.txt-00000";
  const std::string before = TemporaryFolder::read(data);
  std::string turned = before;
  std::reverse(turned.begin(), turned.end() - 1);
  std::ofstream(data, std::ios::binary | std::ios::trunc) << turned;
  const auto [code, output] = resume({});
  EXPECT_EQ(code, static_cast<int>(Errc::kData)) << output;
  EXPECT_NE(output.find("data/train.txt-00000 has changed since pass 1 (pass-00000) began"),
            std::string::npos)
      << output;
  std::ofstream(data, std::ios::binary | std::ios::trunc) << before;
  const auto [done, text] = resume({"--set=train.batch_size=7"});
  EXPECT_EQ(done, 0) << text;
  EXPECT_NE(text.find("pass 1 (pass-00000) continues with batches of 7 records, after batches of"),
            std::string::npos);
}

TEST(StopResume, WithoutAFolderForSnapshotsNothingCouldGoOn) {
  Job job;
  job.write_ngram(1, 2000);
  Process process =
      job.start_local("job", {"--num_passes=1000", "--save_dir=", "--set=train.log_period=1"});
  ASSERT_TRUE(process.prints("Pass=0 Batch=10 ")) << process.output();
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), static_cast<int>(Errc::kInterrupted)) << process.output();
  EXPECT_NE(process.output().find("nothing was saved"), std::string::npos) << process.output();
}

// A byte of a data file, a byte of its MANIFEST, an empty MANIFEST, and none at all.
TEST(StopResume, ADamagedSnapshotGivesWayToTheOneBeforeByName) {
  Job job;
  job.write_ngram(1, 50);
  const std::vector<std::string> flags{"--num_passes=3"};
  ASSERT_TRUE(job.run_local("whole", flags));
  auto whole = job.snapshot("whole", 2);
  for (const char* const file : {"_output.w0", "MANIFEST", "MANIFEST:empty", "MANIFEST:gone"}) {
    const std::string name = fmt::format("after {}", file);
    ASSERT_TRUE(job.run_local(name, {"--num_passes=2"}));
    const std::string newest = job.save_dir(name) + "/pass-00001";
    damage(newest, file);
    Process process = job.start_local(name, {"--num_passes=3", "--resume"});
    EXPECT_EQ(process.wait(), 0) << process.output();
    EXPECT_NE(process.output().find(newest + ".damaged"), std::string::npos) << process.output();
    EXPECT_NE(
        process.output().find("training continues from " + job.save_dir(name) + "/pass-00000"),
        std::string::npos)
        << process.output();
    EXPECT_TRUE(std::filesystem::exists(newest + ".damaged"));
    EXPECT_EQ(job.snapshot(name, 2)["_output.w0"], whole["_output.w0"]) << file;
  }
}

TEST(StopResume, WithoutAWholeSnapshotNothingBeginsAnewUnlessAsked) {
  Job job;
  job.write_ngram(1, 50);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=1"}));
  const auto fails = [&](const std::vector<std::string>& flags, Errc code, const char* what) {
    Process process = job.start_local("job", flags);
    EXPECT_EQ(process.wait(), static_cast<int>(code)) << process.output();
    EXPECT_NE(process.output().find(what), std::string::npos) << process.output();
    EXPECT_NE(process.output().find("--from_scratch"), std::string::npos) << process.output();
    EXPECT_TRUE(std::filesystem::exists(job.save_dir("job") + "/pass-00000"));
  };
  fails({"--num_passes=2"}, Errc::kUsage, "has snapshots of an earlier training, up to pass-00000");
  damage(job.save_dir("job") + "/pass-00000", "MANIFEST:empty");
  fails({"--num_passes=2", "--resume"}, Errc::kData, "pass-00000: MANIFEST");
  fails({"--num_passes=2", "--resume", "--from_scratch"}, Errc::kData, "pass-00000: MANIFEST");
  fails({"--num_passes=2"}, Errc::kUsage, "up to pass-00000");
  EXPECT_TRUE(job.run_local("job", {"--num_passes=2", "--from_scratch"}));
  EXPECT_TRUE(std::filesystem::exists(job.save_dir("job") + "/earlier-1/pass-00000/_output.w0"));
  EXPECT_TRUE(std::filesystem::exists(job.save_dir("job") + "/pass-00001"));
}

// A move of snapshots that a crash has cut short is finished before anything else is saved there.
TEST(StopResume, BeginningAnewIsFinishedByTheNextTraining) {
  Job job;
  job.write_ngram(1, 50);
  ASSERT_TRUE(job.run_local("job", {"--num_passes=2"}));
  const std::string folder = job.save_dir("job");
  std::filesystem::create_directory(folder + "/earlier-1.tmp");
  std::filesystem::rename(folder + "/pass-00001", folder + "/earlier-1.tmp/pass-00001");
  ASSERT_TRUE(job.run_local("job", {"--num_passes=1"}));
  EXPECT_TRUE(std::filesystem::exists(folder + "/earlier-1/pass-00000/MANIFEST"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/earlier-1/pass-00001/MANIFEST"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/pass-00000/MANIFEST"));
}

}  // namespace
}  // namespace paddle::test
