#include "cli/job/settings.h"

#include <set>

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

JobSettings settings() {
  JobSettings settings;
  settings.run = 1'700'000'000'000;
  settings.workspace = "/home/me/clicks";
  settings.configuration =
      "seed = 3\n[train]\nbatch_size = 512 # of a trainer\n[[layer]]\nname = \"out\"\nsize = 1\n";
  settings.overrides = {"train.batch_size=128", "train.passes = 40", "data.train=a b"};
  settings.trainers = 2;
  settings.pservers = 1;
  settings.gpus = "all";
  settings.on = "n[1-2]";
  settings.restarts = 5;
  settings.stall_restarts_after = 0;
  settings.variables = {"TOKEN", "X"};
  settings.data = {{"data/train-0", "ab"}, {"data/train-1", "cd"}};
  return settings;
}

std::vector<std::string> described(const JobSettings& before, const JobSettings& now) {
  std::vector<std::string> texts;
  for (const SettingChange& change : changes_between(before, now))
    texts.push_back(describe(change));
  return texts;
}

using Texts = std::vector<std::string>;

TEST(JobSettings, AreReadAsTheyWereWritten) {
  EXPECT_EQ(decode_settings(encode(settings())), settings());
  JobSettings few;
  EXPECT_EQ(decode_settings(encode(few)), few);
}

TEST(JobSettings, OfDamagedLinesAreLeftOut) {
  std::string text = encode(settings());
  EXPECT_FALSE(decode_settings(""));
  EXPECT_FALSE(decode_settings(text.substr(text.find('\n') + 1))) << "without the line of a start";
  text.insert(text.find('\n') + 1, "{\"kind\":\"set\"\n{\"kind\":\"other\"}\nnonsense\n");
  EXPECT_EQ(decode_settings(text), settings());
}

TEST(JobSettings, DifferByTheValuesOfJobTomlAndOfTheCommandLine) {
  JobSettings now = settings();
  EXPECT_EQ(described(settings(), now), Texts());
  now.overrides = {"train.batch_size=512"};
  now.trainers = 3;
  now.restarts = 0;
  now.gpus.clear();
  EXPECT_EQ(
      described(settings(), now),
      (Texts{"data.train a b -> none", "train.batch_size 128 -> 512", "train.passes 40 -> none",
             "--trainers 2 -> 3", "--gpus all -> none", "--restarts 5 -> 0"}));
}

TEST(JobSettings, HaveNumbersAsTheyWereTyped) {
  const std::string job = "a = 0.1\nb = 1e-30\nc = 3\n[d]\ne = true\n";
  EXPECT_EQ(flat_settings(job, {"d.f=0.3"}),
            (std::map<std::string, std::string>{
                {"a", "0.1"}, {"b", "1e-30"}, {"c", "3"}, {"d.e", "true"}, {"d.f", "0.3"}}));
  EXPECT_TRUE(flat_settings("no toml", {}).empty());
}

TEST(JobSettings, AreReadWithTheirRecord) {
  JobSettings tagged = settings();
  tagged.record = {{"a", "b"}, "a \"note\"", {std::string(40, 'a'), "main", false}};
  EXPECT_EQ(decode_settings(encode(tagged)), tagged);
}

TEST(JobSettings, DifferByAnEditedJobTomlUnlessASetStandsBeforeIt) {
  JobSettings now = settings();
  now.configuration = "seed = 4\n[train]\nbatch_size = 256\n[[layer]]\nname = \"out\"\nsize = 2\n";
  EXPECT_EQ(described(settings(), now), (Texts{"layer.out.size 1 -> 2", "seed 3 -> 4"}));
}

TEST(JobSettings, DifferByTheContentOfData) {
  JobSettings now = settings();
  now.data = {{"data/train-0", "ab"}, {"data/train-1", "ee"}, {"data/train-2", "ff"}};
  EXPECT_EQ(described(settings(), now),
            (Texts{"data/train-1 has different content", "data/train-2 is new"}));
  now.data.erase("data/train-0");
  EXPECT_EQ(described(settings(), now).front(), "data/train-0 was removed");
}

TEST(JobSettings, NameVariablesWithoutTheirValues) {
  JobSettings now = settings();
  now.variables = {"KEY", "TOKEN"};
  EXPECT_EQ(described(settings(), now), Texts{"--env KEY none -> set"});
}

TEST(JobSettings, OfTheOrderOfRecordsMayNotChangeWithinAPass) {
  const auto named = [](const JobSettings& before, const JobSettings& now) {
    Texts texts;
    for (const SettingChange& change : changes_of_order(changes_between(before, now)))
      texts.push_back(describe(change));
    return texts;
  };
  JobSettings now = settings();
  now.overrides = {"train.batch_size=9", "optimizer.learning_rate=1"};
  EXPECT_EQ(named(settings(), now), Texts()) << "batches may have another size";
  now.overrides = {"seed=2", "train.shuffle_records=7", "data.global_shuffle=true"};
  EXPECT_EQ(named(settings(), now), (Texts{"seed 3 -> 2", "data.global_shuffle false -> true",
                                           "train.shuffle_records 0 -> 7"}));
  now.overrides = {"train.shuffle_records=0", "data.files_at_once=1", "seed=3"};
  EXPECT_EQ(named(settings(), now), Texts()) << "what job.toml leaves out has these values";
  now.trainers = 3;
  EXPECT_EQ(named(settings(), now), Texts{"--trainers 2 -> 3"});
  now = settings();
  now.data["data/train-0"] = "other";
  EXPECT_EQ(named(settings(), now), Texts{"data/train-0 has different content"});
}

TEST(JobSettings, OfTheCommandLineStandBeforeThoseOfTheLastRun) {
  EXPECT_EQ(merged_overrides({"train.batch_size=128", "train.passes=4", "a.b=1"},
                             {"train.passes = 9", "c.d=2"}),
            (Texts{"train.batch_size=128", "a.b=1", "train.passes = 9", "c.d=2"}));
}

TEST(JobSettings, NameProgramsThatAreNewHoweverTheyAreSpelled) {
  using Keys = std::set<std::string>;
  EXPECT_EQ(new_programs({}, {"train.passes=3", "data.train=/x", "trainer.commands=[\"a\"]"}),
            Keys());
  EXPECT_EQ(new_programs({}, {"trainer.setup=[\"a\"]", "train.passes=3", "data.command=[\"b\"]"}),
            (Keys{"data.command", "trainer.setup"}));
  for (const char* const spelled :
       {"trainer={requirements='list'}", "trainer.\"requirements\"=\"list\"",
        " trainer . requirements = list", "'trainer'.requirements=list",
        "trainer={command=[],requirements='list',other=1}"}) {
    EXPECT_TRUE(new_programs({}, {spelled}).contains("trainer.requirements")) << spelled;
  }
  const std::string pipe = "data.pipe_command=[\"cat\"]";
  EXPECT_EQ(new_programs({pipe}, {pipe, "train.passes=1"}), Keys());
  EXPECT_EQ(new_programs({pipe}, {"data.pipe_command=[ 'cat' ]"}), Keys()) << "the same program";
  EXPECT_EQ(new_programs({pipe}, {pipe, "data.pipe_command=[\"sort\"]"}),
            Keys{"data.pipe_command"});
  EXPECT_EQ(new_programs({pipe}, {}), Keys()) << "job.toml of the workspace decides";
}

}  // namespace
}  // namespace paddle::cli
