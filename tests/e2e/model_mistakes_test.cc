// Snapshots, records and flags that `paddle test` and `paddle predict` refuse, with the next step.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/e2e/model_life_fixture.h"

namespace paddle::test {
namespace {

namespace fs = std::filesystem;

TEST_F(ModelLife, WhatIsWrongIsNamedWithTheNextStep) {
  train("ctr_dnn", kClicks, "--num_passes=1 --set=train.batch_size=500");
  const std::string saved = "ctr_dnn-save/pass-00000";
  const std::string predict = "paddle predict --snapshot=" + saved;
  fails("paddle test", 2, "--snapshot is missing", "paddle test --snapshot=output/pass-00000");
  fails("paddle test --snapshot=nowhere", 2, "nowhere: there is no such folder", "hint");
  fails("paddle test --snapshot=ctr_dnn-save", 2,
        "ctr_dnn-save is not a snapshot but contains pass-00000",
        "--snapshot=ctr_dnn-save/pass-00000");
  fails("paddle predict --snapshot=ctr_dnn --data=x", 6, "ctr_dnn/MANIFEST",
        "without MANIFEST is not a complete snapshot");
  fails("paddle test --snapshot=" + saved, 6, "no file matches 'data/test.txt' in .",
        "--workspace=DIR");
  fails(predict, 2, "--data is missing", "--data=- reads them from stdin");
  fails(predict + " --data='ctr_dnn/none*'", 6, "no file matches 'ctr_dnn/none*'", "--data=GLOB");
  fails(predict + " --data='none/*.txt'", 6, "no file matches 'none/*.txt'", "--data=GLOB");
  fails(predict + " --data=ctr_dnn/data/test.txt --layer=clik", 2,
        "no layer 'clik', did you mean 'click'?", "layers with outputs are dense, categories, fc1");
  fails(predict + " --data=ctr_dnn/data/test.txt --layer=cost", 2,
        "layer 'cost' is a cost, which has no output", "layers with outputs are");
  fails(predict + " --data=ctr_dnn/data/test.txt --output=xml", 2, "--output is 'xml'", "");
  succeed("echo 'no clicks' >words.txt");
  fails(predict + " --data=words.txt", 6, "words.txt:1: ", "on_bad_record");
  const Ran left_out = succeed("cat words.txt ctr_dnn/data/test.txt | " + predict +
                               " --data=- --set=data.on_bad_record=skip");
  EXPECT_EQ(lines_of(left_out.out).size(), 2000U);
  EXPECT_NE(left_out.error.find("1 bad records were left out of the output"), std::string::npos)
      << left_out.error;

  // Standard input is read from where it is, and no record is no result.
  const auto all = lines_of(succeed(predict + " --data=ctr_dnn/data/test.txt").out);
  const Ran rest = succeed("{ head -c $(head -n 1 ctr_dnn/data/test.txt | wc -c) >/dev/null; " +
                           predict + " --data=-; } <ctr_dnn/data/test.txt");
  const auto others = lines_of(rest.out);
  ASSERT_EQ(others.size(), all.size() - 1);
  for (std::size_t i = 0; i < others.size(); ++i)
    ASSERT_NEAR(std::stod(others[i].substr(2)), std::stod(all[i + 1].substr(2)), 1e-6) << i;
  const std::string test = "paddle test --snapshot=" + saved;
  fails(test + " --data=- </dev/null", 6, "stdin has no record", "nothing to test on");
  fails(test + " --data=words.txt --set=data.on_bad_record=skip --json", 6,
        "words.txt has no record that is not bad", "");
  fails(test + " --workspace=ctr_dnn --json >/dev/full", 7, "stdout cannot be written", "");
  EXPECT_EQ(shell(test + " --workspace=ctr_dnn | true").error, "");
  fails(predict + " --data=ctr_dnn/data/test.txt --model_file=words.txt=words.txt", 2,
        "does not depend on a file 'words.txt'", "it depends on no files");

  // A file of the description is as much a part of the snapshot as the values are.
  succeed("echo >>" + saved + "/model/job.toml");
  fails("paddle test --snapshot=" + saved + " --workspace=ctr_dnn", 6, "model/job.toml", "");
  succeed("paddle verify ctr_dnn-save || true");
  EXPECT_EQ(shell("paddle verify ctr_dnn-save").code, 6);
}

TEST_F(ModelLife, AProgramThatTheSnapshotBringsRunsOnlyWhereItIsAllowed) {
  train("ctr_dnn", kClicks,
        "--num_passes=1 --set=train.batch_size=500 "
        R"(--set='data.pipe_command=["sh", "-c", "touch ran && cat"]')");
  fs::remove(folder_ / "ctr_dnn/ran");
  const std::string saved = " --snapshot=ctr_dnn-save/pass-00000 --workspace=ctr_dnn ";
  fails("paddle test" + saved, 2, "would run the program of its data.pipe_command: 'sh' '-c'",
        "--allow_pipe_command");
  fails("paddle predict --data=data/test.txt" + saved, 2, "data.pipe_command",
        "--allow_pipe_command");
  EXPECT_FALSE(fs::exists(folder_ / "ctr_dnn/ran"));
  const Ran with_own = succeed("paddle test" + saved + R"(--set='data.pipe_command=["cat"]')");
  EXPECT_FALSE(fs::exists(folder_ / "ctr_dnn/ran"));
  EXPECT_EQ(succeed("paddle test --allow_pipe_command" + saved).out, with_own.out);
  EXPECT_TRUE(fs::exists(folder_ / "ctr_dnn/ran"));
}

}  // namespace
}  // namespace paddle::test
