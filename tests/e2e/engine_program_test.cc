// The engine's program as whoever starts it sees it: flags, messages, exit codes, ports.
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/e2e/local_training_job.h"
#include "tests/support/free_ports.h"

namespace paddle::test {
namespace {

TEST(PserverProgram, ATakenPortIsNamedAndNothingStays) {
  Job job;
  const int port = free_ports(2);
  const UniqueFd taken = listen_on(static_cast<std::uint16_t>(port + 1));
  ASSERT_TRUE(taken);
  Process pserver = job.start_pserver("job", {}, 0, port);
  EXPECT_EQ(pserver.wait(), static_cast<int>(Errc::kResource));
  EXPECT_NE(pserver.output().find(fmt::format("127.0.0.1:{}", port + 1)), std::string::npos)
      << pserver.output();
  EXPECT_EQ(pserver.output().find("READY"), std::string::npos);
  EXPECT_TRUE(listen_on(static_cast<std::uint16_t>(port)));
}

TEST(PserverProgram, ReportsItsPortsAndStopsWhenAsked) {
  Job job;
  const int port = free_ports(5);
  Process pserver = job.start_pserver("job", {.ports_num = 3, .ports_num_for_sparse = 2}, 0, port);
  ASSERT_TRUE(pserver.prints(fmt::format("READY pserver 0 ports {}-{}\n", port, port + 4)));
  pserver.signal(SIGINT);
  EXPECT_EQ(pserver.wait(), static_cast<int>(Errc::kInterrupted));
}

// A program with little room for descriptors, which root may not enlarge either.
Process with_descriptors(int count, std::vector<std::string> arguments, const std::string& output) {
  std::string script = fmt::format("ulimit -n {} && exec ", count);
  if (::geteuid() == 0) script += "setpriv --bounding-set=-sys_resource --inh-caps=-sys_resource ";
  arguments.insert(arguments.begin(), {"/bin/sh", "-c", script + "\"$@\"", "sh"});
  return {std::move(arguments), output};
}

TEST(PserverProgram, TooFewDescriptorsAreNamedBeforeATrainerWaits) {
#if defined(__SANITIZE_ADDRESS__)
  // UBSan opens a pipe before it reads an object's vptr. Without a free descriptor it reports that
  // the object has none.
  GTEST_SKIP() << "UBSan itself needs descriptors";
#endif
  const TemporaryFolder folder;
  std::vector<std::pair<int, Process>> all;  // by their descriptors; each waits a second in vain
  for (int count = 12; count <= 40; count += 2) {
    all.emplace_back(
        count, with_descriptors(count,
                                {PADDLE_PROGRAM, "pserver", fmt::format("--port={}", free_ports(2)),
                                 "--ports_num=1", "--ports_num_for_sparse=1",
                                 "--num_gradient_servers=3", "--first_trainer_within=1"},
                                folder / fmt::format("{}", count)));
  }
  int named = 0;
  bool was_ready = false;
  for (auto& [count, pserver] : all) {
    const auto code = pserver.wait();
    const std::string output = pserver.output();
    const bool is_ready = output.find("READY pserver") != std::string::npos;
    EXPECT_EQ(code, is_ready ? 4 : 7) << count << output;
    EXPECT_TRUE(is_ready || output.find("Too many open files") != std::string::npos)
        << count << output;
    EXPECT_TRUE(is_ready || !was_ready) << count << " is more than before\n" << output;
    was_ready = is_ready;
    if (output.find("6 connections of trainers: Too many open files") != std::string::npos) ++named;
  }
  EXPECT_TRUE(was_ready) << "40 are enough";
  EXPECT_GE(named, 2) << "it could listen, but had no room for all trainers";
}

TEST(PserverProgram, Trap16AnotherNumberOfTrainersIsRefused) {
  Job job;
  job.write_ngram(1, 10);
  const int port = free_ports(2);
  const Process pserver = job.start_pserver("job", {.trainers = 3}, 0, port);
  ASSERT_TRUE(pserver.prints("READY"));
  Process trainer = job.start_trainer("job", {}, 0, port, {});
  const auto code = trainer.wait();
  EXPECT_TRUE(code.has_value() && *code != 0);
  EXPECT_NE(trainer.output().find("num_gradient_servers"), std::string::npos) << trainer.output();
}

class Program : public testing::Test {
 protected:
  // The exit code and what was printed.
  std::string run(std::vector<std::string> arguments,
                  std::vector<std::string> environment = {"PATH=/usr/bin:/bin"}) {
    arguments.insert(arguments.begin(), PADDLE_PROGRAM);
    const std::string file = folder_ / fmt::format("run-{}", runs_++);
    Process process(arguments, file, std::move(environment));
    const auto code = process.wait();
    return fmt::format("{} {}", code.value_or(-1), process.output());
  }

  TemporaryFolder folder_;
  int runs_ = 0;
};

TEST_F(Program, HelpsAndNamesMistakes) {
  EXPECT_TRUE(run({"version"}).starts_with("0 paddlectl engine "));
  EXPECT_TRUE(run({"--help"}).starts_with("0 usage: paddle <command>"));
  EXPECT_NE(run({"train", "--help"}).find("--num_gradient_servers="), std::string::npos);
  EXPECT_EQ(run({"trian"}), "2 paddle: unknown command 'trian'\nhint: did you mean 'train'?\n");
  EXPECT_EQ(run({"train", "--trainer-id=1"}),
            "2 paddle: unknown flag '--trainer-id'\nhint: did you mean '--trainer_id'?\n");
  EXPECT_TRUE(run({"train", "--use_gpu"})
                  .starts_with("2 paddle: --use_gpu: this program is paddle, which "));
  EXPECT_TRUE(run({"pserver", "--num_gradient_servers=4097"})
                  .starts_with("2 paddle: --num_gradient_servers"));
  EXPECT_TRUE(
      run({"pserver", "--bind=0.0.0.0"})
          .starts_with("5 paddle: 0.0.0.0 is not a loopback address and there is no --key_file"));
}

TEST_F(Program, TheEnvironmentGivesFlagsAndFlagsWin) {
  EXPECT_TRUE(run({"pserver"}, {"PADDLE_INIT_PORTS_NUM=many", "PADDLE_INIT_TRAINER_ID=3"})
                  .starts_with("2 paddle: PADDLE_INIT_PORTS_NUM: 'many' is not a whole number"));
  EXPECT_TRUE(run({"train", "--config=/none/job.toml"}, {"PADDLE_INIT_USE_GPU=true"})
                  .starts_with("2 paddle: --use_gpu"));
  EXPECT_TRUE(
      run({"train", "--config=/none/job.toml", "--use_gpu=false"}, {"PADDLE_INIT_USE_GPU=1"})
          .starts_with("2 paddle: open /none/job.toml"));
}

TEST_F(Program, APserverThatNoTrainerComesToEnds) {
  const std::string said =
      run({"pserver", fmt::format("--port={}", free_ports(2)), "--first_trainer_within=1"});
  EXPECT_TRUE(said.starts_with("4 ")) << said;
  EXPECT_NE(said.find("\nREADY pserver 0 ports"), std::string::npos) << said;
  EXPECT_NE(said.find("no trainer connected within 1 seconds"), std::string::npos) << said;
}

// A second incarnation that begins before any trainer has come would go on from them.
TEST_F(Program, TheFirstStartOfAPserverForgetsTheSavepointsOfAnEarlierRun) {
  const TemporaryFolder folder;
  const std::string left = folder.write("savepoints/port-1/savepoint-000000000001.full", "x");
  for (const int incarnation : {2, 1}) {
    run({"pserver", fmt::format("--port={}", free_ports(2)), "--first_trainer_within=1",
         "--savepoints=" + (folder / "savepoints"), fmt::format("--incarnation={}", incarnation)});
    EXPECT_EQ(std::filesystem::exists(left), incarnation == 2);
  }
}

TEST_F(Program, AMissingPserverIsUnreachable) {
  Job job;
  job.write_ngram(1, 5);
  const std::string said =
      run({"train", "--config=" + job.folder() / "job.toml", "--pservers=127.0.0.1",
           "--connect_timeout=1", fmt::format("--port={}", free_ports(2))});
  EXPECT_TRUE(said.starts_with("4 ")) << said;
  EXPECT_NE(said.find("\npaddle: pserver 0: "), std::string::npos) << said;
}

}  // namespace
}  // namespace paddle::test
