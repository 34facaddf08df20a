// Trainers that keep dense parameters among themselves, as real processes on loopback.
#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/result.h"
#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

constexpr Shape kGroup{.trainers = 3, .pservers = 0};
constexpr Shape kServers{.trainers = 3, .pservers = 2};
// The second trainer has no file.
const std::vector<int> kUneven{70, 0, 25};
const std::vector<std::string> kFlags =
    with(kThreePasses, {"--set=optimizer.learning_rate_schedule=poly",
                        "--set=optimizer.learning_rate_decay_a=0.01",
                        "--set=optimizer.learning_rate_decay_b=0.5"});

// The lines of a log without their begin, which has the time.
std::vector<std::string> lines_with(const std::string& log, const std::string& text) {
  std::vector<std::string> found;
  std::istringstream all(log);
  for (std::string line; std::getline(all, line);) {
    const std::size_t at = line.find(text);
    if (at != std::string::npos) found.push_back(line.substr(at));
  }
  return found;
}

TEST(Collective, HasTheBitsOfSyncOnPservers) {
  Job job;
  job.write_dense_ngram(kUneven);
  ASSERT_TRUE(job.run("servers", kServers, kFlags));
  ASSERT_TRUE(job.run("group", kGroup, kFlags));
  for (const int pass : {0, 1, 2}) {
    const auto group = job.values("group", pass);
    EXPECT_TRUE(group.contains("_output.w0"));
    EXPECT_TRUE(group == job.values("servers", pass)) << pass;
  }
  for (const char* const kind : {"over all trainers", " Test samples="}) {
    const auto lines = lines_with(job.output("group", 0), kind);
    EXPECT_FALSE(lines.empty()) << kind;
    EXPECT_EQ(lines, lines_with(job.output("servers", 0), kind));
  }
}

// The projection is shared by two layers.
TEST(Collective, Trap28ClippedRegularisedStaticAveragedAndSharedParametersAreThoseOfSync) {
  Job job;
  job.write_dense_ngram(kUneven);
  ASSERT_TRUE(job.run("plain", kGroup, kFlags));
  std::string text = TemporaryFolder::read(job.folder() / "job.toml");
  for (const auto& [layer, weight] : std::vector<std::pair<std::string, std::string>>{
           {"hidden", "static = true"}, {"output", "l1 = 1e-3, clip_norm = 0.02"}}) {
    const std::size_t at = text.find("type", text.find("name = \"" + layer + "\""));
    ASSERT_NE(at, std::string::npos);
    text.insert(at, "weight = { " + weight + " }\n");
  }
  job.folder().write("job.toml", text);
  const auto flags =
      with(kFlags, {"--set=optimizer.l1=1e-4", "--set=optimizer.l2=1e-3",
                    "--set=optimizer.clip_norm=0.05", "--set=optimizer.clip_value=0.04"});
  ASSERT_TRUE(job.run("servers", kServers, flags));
  ASSERT_TRUE(job.run("group", kGroup, flags));
  for (const int pass : {0, 1, 2}) {
    EXPECT_TRUE(job.values("group", pass) == job.values("servers", pass)) << pass;
  }
  EXPECT_EQ(job.values("group", 2).at("_hidden.w0"), job.values("group", 0).at("_hidden.w0"));
  for (const char* const name : {"_output.w0", "_output.wbias", "_proj"}) {
    EXPECT_NE(job.values("group", 2).at(name), job.values("plain", 2).at(name)) << name;
  }
}

// Traps 17 and 23: a stopped job goes on in either mode, and ends with the same bits.
TEST(Collective, AStoppedJobGoesOnUnderPserversAndBack) {
  Job job;
  job.write_dense_ngram(kUneven);
  ASSERT_TRUE(job.run("whole", kServers, kFlags));
  for (const bool to_servers : {true, false}) {
    const std::string name = to_servers ? "to" : "back";
    auto trainers = job.start(name, kGroup, kFlags).trainers;
    ASSERT_TRUE(trainers[0].prints("Pass=1 Batch=2 ", std::chrono::seconds(240)))
        << trainers[0].output();
    trainers[2].signal(SIGTERM);
    trainers[0].signal(SIGTERM);
    for (Process& trainer : trainers) {
      EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kResumable)) << trainer.output();
    }
    ASSERT_TRUE(job.run(name, to_servers ? kServers : kGroup, with(kFlags, {"--resume"})));
    EXPECT_TRUE(job.values(name, 2) == job.values("whole", 2)) << name;
  }
  // From pservers into the group, between two passes.
  const auto one_pass = with(kFlags, {"--num_passes=1"});
  ASSERT_TRUE(job.run("from", kServers, one_pass));
  ASSERT_TRUE(job.run("from", kGroup, with(kFlags, {"--resume"})));
  EXPECT_TRUE(job.values("from", 2) == job.values("whole", 2));
}

// Batches of a pass by trainer, and the samples of all.
struct PassSize {
  std::vector<std::uint64_t> batches;
  std::uint64_t samples = 0;
};

PassSize size_of(const Job& job, const std::string& name, int pass, const Shape& shape = kGroup) {
  PassSize size;
  for (int id = 0; id < shape.trainers; ++id) {
    const std::string metrics = job.metrics(name, id);
    const std::string head = fmt::format(R"({{"kind":"pass","pass":{},"batch":)", pass);
    const std::size_t at = metrics.find(head);
    EXPECT_NE(at, std::string::npos) << metrics;
    if (at == std::string::npos) continue;
    const std::string total = R"("total_samples":)";
    size.batches.push_back(std::stoull(metrics.substr(at + head.size())));
    size.samples = std::stoull(metrics.substr(metrics.find(total, at) + total.size()));
  }
  return size;
}

TEST(Collective, DropEndsAPassWithTheFirstTrainerAtItsEnd) {
  Job job;
  job.write_dense_ngram({70, 9, 25});
  ASSERT_TRUE(job.run("join", kGroup, with(kFlags, {"--num_passes=1"})));
  const PassSize whole = size_of(job, "join", 0);
  ASSERT_EQ(whole.batches.size(), 3U);
  ASSERT_GT(whole.batches[2], whole.batches[1]);
  ASSERT_TRUE(job.run("drop", kGroup, with(kFlags, {"--set=strategy.uneven=drop"})));
  for (const int pass : {0, 2}) {
    const PassSize dropped = size_of(job, "drop", pass);
    ASSERT_EQ(dropped.batches.size(), 3U);
    EXPECT_EQ(dropped.batches, std::vector<std::uint64_t>(3, dropped.batches[0]));
    EXPECT_LE(dropped.batches[0], whole.batches[1]);
    EXPECT_GE(dropped.batches[0] + 1, whole.batches[1]) << "its last batch may be short";
    EXPECT_EQ(dropped.samples, dropped.batches[0] * 3 * 16);
  }
  EXPECT_EQ(lines_with(job.output("drop", 0), "leaves out the rest of the data").size(), 3U);
  // A trainer that can never take part is an error on all of them.
  job.write_dense_ngram({70, 1, 25});
  auto trainers = job.start("none", kGroup, with(kFlags, {"--set=strategy.uneven=drop"})).trainers;
  for (Process& trainer : trainers) {
    const auto code = trainer.wait();
    EXPECT_TRUE(code && *code != 0) << trainer.output();
    EXPECT_NE(trainer.output().find("trainer 1 has no full batch of 16"), std::string::npos)
        << trainer.output();
  }
}

TEST(Collective, PadRepeatsTheDataOfTrainersAtTheirEnd) {
  Job job;
  job.write_dense_ngram({70, 9, 25});
  ASSERT_TRUE(job.run("join", kGroup, with(kFlags, {"--num_passes=1"})));
  const PassSize whole = size_of(job, "join", 0);
  const auto flags = with(kFlags, {"--set=strategy.uneven=pad"});
  ASSERT_TRUE(job.run("pad", kGroup, flags));
  const PassSize padded = size_of(job, "pad", 0);
  EXPECT_EQ(padded.batches, std::vector<std::uint64_t>(3, whole.batches[0]));
  EXPECT_GT(padded.samples, whole.samples);
  // It stops while two of the trainers repeat theirs.
  auto trainers = job.start("stopped", kGroup, flags).trainers;
  const auto place = fmt::format("Pass=1 Batch={} ", whole.batches[2] + 1);
  ASSERT_TRUE(trainers[0].prints(place, std::chrono::seconds(240))) << trainers[0].output();
  trainers[1].signal(SIGTERM);
  for (Process& trainer : trainers) {
    EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kResumable)) << trainer.output();
  }
  ASSERT_TRUE(job.run("stopped", kGroup, with(flags, {"--resume"})));
  EXPECT_TRUE(job.values("stopped", 2) == job.values("pad", 2));
}

// Target 7: the others name the one that was killed, and the job goes on from its last snapshot.
TEST(Collective, TheOthersNameALostTrainer) {
  Job job;
  job.write_dense_ngram({400, 400, 400});
  auto trainers = job.start("job", kGroup, kFlags).trainers;
  ASSERT_TRUE(trainers[0].prints("Pass=1 Batch=2 ", std::chrono::seconds(240)))
      << trainers[0].output();
  trainers[1].signal(SIGKILL);
  for (const std::size_t id : {0U, 2U}) {
    EXPECT_EQ(trainers[id].wait(), static_cast<int>(Errc::kUnreachable)) << trainers[id].output();
    EXPECT_NE(trainers[id].output().find("rank 1"), std::string::npos) << trainers[id].output();
    // Its last events lie beside its metrics.
    const std::string events =
        TemporaryFolder::read(job.folder() / fmt::format("job-{}.events", id));
    EXPECT_GT(std::ranges::count(events, '\n'), 4) << trainers[id].output();
  }
  ASSERT_TRUE(job.run("job", kGroup, with(kFlags, {"--resume"})));
  ASSERT_TRUE(job.run("whole", kGroup, kFlags));
  EXPECT_TRUE(job.values("job", 2) == job.values("whole", 2));
}

// Trap 4: before the first step too.
TEST(Collective, TheOthersHearWhyTheFirstTrainerCannotStart) {
  Job job;
  job.write_dense_ngram({20, 20, 20});
  auto trainers = job.start("job", kGroup, with(kFlags, {"--start_pass=1"})).trainers;
  for (Process& trainer : trainers) {
    const auto code = trainer.wait();
    EXPECT_TRUE(code && *code != 0) << trainer.output();
    EXPECT_NE(trainer.output().find("pass-00000"), std::string::npos) << trainer.output();
    EXPECT_EQ(trainer.output().find("without leaving"), std::string::npos) << trainer.output();
  }
}

const std::vector<std::string> kLocalSgd{"--num_passes=3",
                                         "--set=strategy.dense=\"local_sgd\"",
                                         "--set=strategy.update_frequency=3",
                                         "--set=optimizer.method=\"adam\"",
                                         "--set=optimizer.learning_rate_schedule=poly",
                                         "--set=optimizer.learning_rate_decay_a=0.01",
                                         "--set=optimizer.learning_rate_decay_b=0.5",
                                         "--set=train.log_period=1",
                                         "--set=train.test_period=4",
                                         "--set=train.snapshots_kept=9"};

// Whoever has no batch left takes part in the rounds of the others, and begins the next pass with
// their mean.
TEST(Collective, LocalSgdCountsUnevenDataAndIsRepeatable) {
  Job job;
  job.write_dense_ngram(kUneven);
  ASSERT_TRUE(job.run("once", kGroup, kLocalSgd));
  ASSERT_TRUE(job.run("again", kGroup, kLocalSgd));
  EXPECT_TRUE(job.values("once", 2) == job.values("again", 2));
  for (const std::string& line : lines_with(job.output("once", 0), "over all trainers"))
    EXPECT_NE(line.find("samples=570 "), std::string::npos) << line;
}

TEST(Collective, LocalSgdThatIsStoppedOrKilledCountsEveryRecordOnce) {
  Job job;
  job.write_dense_ngram({400, 400, 380});
  for (const int signal : {SIGTERM, SIGKILL}) {
    const std::string name = fmt::format("signal-{}", signal);
    auto trainers = job.start(name, kGroup, kLocalSgd).trainers;
    ASSERT_TRUE(trainers[0].prints("Pass=1 Batch=2 ", std::chrono::seconds(240)))
        << trainers[0].output();
    trainers[2].signal(signal);
    for (Process& trainer : trainers) {
      const auto code = trainer.wait();
      if (signal == SIGTERM) {
        EXPECT_EQ(code, static_cast<int>(Errc::kResumable)) << trainer.output();
      }
    }
    ASSERT_TRUE(job.run(name, kGroup, with(kLocalSgd, {"--resume"})));
    // Six samples of each record, in three passes.
    const std::string manifest = job.snapshot(name, 2).at("MANIFEST");
    EXPECT_NE(manifest.find(" samples=21240\n"), std::string::npos) << manifest;
  }
}

TEST(Collective, OneTrainerIsALocalJob) {
  Job job;
  job.write_dense_ngram({40});
  ASSERT_TRUE(job.run("group", {.trainers = 1, .pservers = 0}, kFlags));
  ASSERT_TRUE(job.run_local("local", kFlags));
  EXPECT_TRUE(job.values("group", 2) == job.values("local", 2));
  ASSERT_TRUE(job.run_local("local_sgd", with(kFlags, {"--set=strategy.dense=\"local_sgd\""})));
  EXPECT_TRUE(job.values("local_sgd", 2) == job.values("local", 2));
}

TEST(Collective, RefusesWhatItCannotTrainByName) {
  Job job;
  job.write_ngram(2, 10);
  const int port = free_ports(2);
  const auto fails = [&](const std::vector<std::string>& flags) {
    Process trainer = job.start_trainer("job", {.trainers = 2, .pservers = 0}, 0, port, flags);
    EXPECT_EQ(trainer.wait(), static_cast<int>(Errc::kUsage));
    return trainer.output();
  };
  EXPECT_NE(fails({"--pservers="}).find("the sparse table of layer 'e0' needs pservers"),
            std::string::npos);
  job.write_dense_ngram({10, 10});
  EXPECT_NE(
      fails({"--trainers=127.0.0.1:7164"}).find("--trainers names 1 trainers, but the job has 2"),
      std::string::npos);
  EXPECT_NE(fails({"--set=strategy.staleness_max=2"}).find("'staleness_max' is for"),
            std::string::npos);
}

}  // namespace
}  // namespace paddle::test
