#include <filesystem>

#include <gtest/gtest.h>

#include "base/version.h"
#include "cli/report/record.h"
#include "tests/support/fake_cluster.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

TEST(Machines, AreReadAsTheNodesToldThem) {
  FakeCluster fake(2);
  fake.node(1).os = "Ubuntu \"24.04\"";
  fake.cluster.provided = {{.name = "n-1", .hourly = 0.5, .currency = "EUR"}};
  ClusterSession session = fake.session();
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_machines(folder.path(), session));
  const auto machines = read_machines(folder.path());
  ASSERT_EQ(machines.size(), 2U);
  EXPECT_EQ(machines[0].node, "n-0");
  EXPECT_EQ(machines[0].processor, "Fake CPU @ 2.00GHz");
  EXPECT_EQ(machines[0].cores, 4);
  EXPECT_EQ(machines[0].memory_bytes, 8e9);
  EXPECT_EQ(machines[0].agent_version, "1.2.3");
  EXPECT_EQ(machines[0].utc_offset_s, 3600);
  EXPECT_EQ(machines[1].os, "Ubuntu \"24.04\"");
  EXPECT_EQ(machines[0].price_per_hour, 0);
  EXPECT_EQ(machines[1].price_per_hour, 0.5);
  EXPECT_EQ(machines[1].currency, "EUR");
}

TEST(Commands, AreAsTypedForAShellAndWithoutValuesOfVariables) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  fake.context.arguments = {
      "train", "--set", "a = 'x y'", "--env", "TOKEN=secret", "--env=KEY=secret", "words"};
  ASSERT_TRUE(add_command(fake.context, folder.path(), "j"));
  fake.context.arguments = {"train", "--resume", ""};
  ASSERT_TRUE(add_command(fake.context, folder.path(), "j"));
  const auto commands = read_commands(folder / "j");
  ASSERT_EQ(commands.size(), 2U);
  EXPECT_EQ(commands[0].text,
            R"(paddlectl train --set 'a = '\''x y'\''' --env TOKEN=... --env=KEY=... words)");
  EXPECT_EQ(commands[0].version, kProgramVersion);
  EXPECT_EQ(commands[1].text, "paddlectl train --resume ''");
}

TEST(ResumeCommand, HasWhatTrainWasGivenButForNamesAndValuesOfVariables) {
  const ResumeCommand command = resume_command(
      {"--timeout", "60", "train", "--name", "old", "--from=x:2", "--set", "a = 'x y'", "--resume",
       "--env", "TOKEN=secret", "--env=KEY=secret", "--env", "LANG", "--gpus", "0,1", "my words"},
      2, "j");
  EXPECT_EQ(command.text,
            "paddlectl --timeout 60 train --resume --name j --set 'a = '\\''x y'\\''' --env TOKEN "
            "--env KEY --env LANG --gpus 0,1 'my words'");
  EXPECT_EQ(command.after("resume with"),
            "export TOKEN, KEY, LANG, then resume with: " + command.text);
  EXPECT_EQ(resume_command({"train"}, 0, "j").after("resume with"),
            "resume with: paddlectl train --resume --name j");
  EXPECT_EQ(resume_command({"attach", "j"}, 0, "j").text, "");
  EXPECT_EQ(resume_command_of("j").text, "paddlectl train --resume --name j <workspace>");
}

TEST(ResumeCommand, HasNoWordThatAShellExpands) {
  EXPECT_EQ(resume_command({"train", "--on", "node[01-04]", "--set=a.b=[1,2]", "~me"}, 0, "j").text,
            "paddlectl train --resume --name j --on 'node[01-04]' '--set=a.b=[1,2]' '~me'");
}

TEST(ResumeCommand, HasNoFlagOfThisStartAloneInEitherSpelling) {
  EXPECT_EQ(resume_command(
                {"train", "--resume=false", "--dry-run=false", "--prepare", "--job=x", "w"}, 0, "j")
                .text,
            "paddlectl train --resume --name j w");
  EXPECT_EQ(
      resume_command({"train", "--resume=true", "--dry-run=0", "--detach=true", "w"}, 0, "j").text,
      "paddlectl train --resume --name j --detach=true w");
}

TEST(ResumeCommand, KnowsItsOwnWordFromAValueOrAJobOfThatName) {
  EXPECT_EQ(resume_command({"--password-file", "train", "train", "train"}, 2, "j").text,
            "paddlectl --password-file train train --resume --name j train");
  EXPECT_EQ(resume_command({"attach", "train"}, 0, "train").text, "");
  EXPECT_EQ(resume_command({"--password-file", "--", "train", "--", "w"}, 2, "j").text,
            "paddlectl --password-file -- train --resume --name j -- w");
  EXPECT_EQ(resume_command({}, 0, "j").text, "");
}

TEST(ResumeCommand, KeepsWhatStandsAfterTwoDashes) {
  EXPECT_EQ(resume_command({"train", "--name", "x", "--env", "A=1", "--", "--resume"}, 0, "j").text,
            "paddlectl train --resume --name j --env A -- --resume");
}

TEST(ResumeCommand, KeepsBytesThatAreNotUtf8ForAShell) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  fake.context.arguments = {"train", "caf\xe9's"};
  ASSERT_TRUE(add_command(fake.context, folder.path(), "j"));
  const auto commands = read_commands(folder / "j");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].resume.text, "paddlectl train --resume --name j $'caf\\xe9\\'s'");
  EXPECT_EQ(commands[0].text, "paddlectl train $'caf\\xe9\\'s'");
}

TEST(ResumeCommand, IsKeptWithEachStart) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  fake.context.arguments = {"train", "--env", "TOKEN=secret", "words"};
  ASSERT_TRUE(add_command(fake.context, folder.path(), "j"));
  const auto commands = read_commands(folder / "j");
  ASSERT_EQ(commands.size(), 1U);
  EXPECT_EQ(commands[0].resume.text, "paddlectl train --resume --name j --env TOKEN words");
  EXPECT_EQ(commands[0].resume.variables, "TOKEN");
}

TEST(Commands, AreNotWrittenThroughALink) {
  FakeCluster fake(1);
  const test::TemporaryFolder folder;
  const std::string precious = folder.write("precious", "mine");
  std::filesystem::create_directory(folder / "j");
  std::filesystem::create_symlink(precious, folder / "j/commands.jsonl");
  fake.context.arguments = {"train"};
  EXPECT_FALSE(add_command(fake.context, folder.path(), "j"));
  EXPECT_EQ(test::TemporaryFolder::read(precious), "mine");
}

TEST(Surroundings, OfAFolderWithoutThemAreNone) {
  const test::TemporaryFolder folder;
  EXPECT_TRUE(read_machines(folder.path()).empty());
  EXPECT_TRUE(read_commands(folder.path()).empty());
}

}  // namespace
}  // namespace paddle::cli
