#include "engine/commands/flags.h"

#include <optional>

#include <gtest/gtest.h>

namespace paddle::commands {
namespace {

class FlagsTest : public testing::Test {
 protected:
  FlagsTest() {
    flags_.number("port", "the first port", port_, 1, 65535);
    flags_.text("bind", "address", bind_);
    flags_.boolean("local", "no pservers", local_);
    flags_.repeated("set", "override", sets_);
    flags_.list("pservers", "hosts", hosts_);
  }

  std::string mistake(const std::vector<std::string>& arguments) {
    return text_of(flags_.parse(arguments));
  }
  std::string environment_mistake(std::vector<const char*> entries) {
    entries.push_back(nullptr);
    return text_of(flags_.parse_environment(entries.data()));
  }
  static std::string text_of(const Status& status) {
    if (status) return "none";
    EXPECT_EQ(status.error().code, Errc::kUsage);
    return status.error().message + " | " + status.error().hint;
  }

  FlagSet flags_;
  std::uint32_t port_ = 7164;
  std::string bind_ = "127.0.0.1";
  bool local_ = true;
  std::vector<std::string> sets_;
  std::vector<std::string> hosts_{"127.0.0.1"};
};

TEST_F(FlagsTest, TakesBothSpellings) {
  EXPECT_EQ(mistake({"--port=80", "--bind", "10.0.0.1", "--nolocal", "--set=a=1", "--set", "b=2"}),
            "none");
  EXPECT_EQ(port_, 80U);
  EXPECT_EQ(bind_, "10.0.0.1");
  EXPECT_FALSE(local_);
  EXPECT_EQ(sets_, (std::vector<std::string>{"a=1", "b=2"}));
  EXPECT_EQ(mistake({"--local"}), "none");
  EXPECT_TRUE(local_);
  EXPECT_EQ(mistake({"--local=0"}), "none");
  EXPECT_FALSE(local_);
}

TEST_F(FlagsTest, ABooleanMayBeLeftOpen) {
  std::optional<bool> gpu;
  flags_.boolean("gpu", "on a GPU", gpu);
  EXPECT_EQ(mistake({"--port=80"}), "none");
  EXPECT_FALSE(gpu.has_value());
  EXPECT_EQ(environment_mistake({"PADDLE_INIT_GPU=0"}), "none");
  EXPECT_EQ(gpu, std::optional(false));
  EXPECT_EQ(mistake({"--gpu"}), "none");
  EXPECT_EQ(gpu, std::optional(true));
  EXPECT_EQ(mistake({"--gpu", "--gpu=false"}), "none");
  EXPECT_EQ(gpu, std::optional(false));
  EXPECT_EQ(mistake({"--gpu=1"}), "none");
  EXPECT_EQ(gpu, std::optional(true));
  EXPECT_EQ(mistake({"--nogpu"}), "none");
  EXPECT_EQ(gpu, std::optional(false));
  EXPECT_EQ(mistake({"--gpu=maybe"}), "--gpu: 'maybe' is neither true nor false | ");
}

TEST_F(FlagsTest, TakesAnyNumberOfPositionals) {
  std::vector<std::string> words;
  flags_.positionals("WORD", "words", words);
  EXPECT_EQ(mistake({"king", "--port=80", "[a,b]", "--local", "010"}), "none");
  EXPECT_EQ(words, (std::vector<std::string>{"king", "[a,b]", "010"}));
  EXPECT_EQ(port_, 80U);
  EXPECT_EQ(mistake({"--bind=1"}), "none");
  EXPECT_EQ(words.size(), 3U);
}

TEST_F(FlagsTest, NamesMistakes) {
  EXPECT_EQ(mistake({"--prot=80"}), "unknown flag '--prot' | did you mean '--port'?");
  EXPECT_TRUE(mistake({"--noport"}).starts_with("unknown flag '--noport'"));
  EXPECT_EQ(mistake({"--batch_size=8"}),
            "unknown flag '--batch_size' | set keys of job.toml by --set, as in "
            "--set=train.batch_size=64; --help lists the flags");
  EXPECT_EQ(mistake({"--port=70000"}), "--port: '70000' is not a whole number from 1 to 65535 | ");
  EXPECT_EQ(mistake({"--port=8x"}), "--port: '8x' is not a whole number from 1 to 65535 | ");
  EXPECT_EQ(mistake({"--local=maybe"}), "--local: 'maybe' is neither true nor false | ");
  EXPECT_EQ(mistake({"--bind"}), "--bind needs a value | ");
  EXPECT_EQ(mistake({"train"}), "'train' is not a flag | see --help");
}

TEST_F(FlagsTest, NamesTheFlagOfAPath) {
  std::string snapshot, data, config;
  flags_.text("snapshot", "folder", snapshot);
  flags_.text("data", "files", data);
  flags_.text("config", "job.toml", config);
  const std::string hint = "write the name of the flag before the value: ";
  EXPECT_EQ(mistake({"output/a"}), "'output/a' is not a flag | " + hint + "--snapshot=output/a");
  EXPECT_EQ(mistake({"w/job.toml"}),
            "'w/job.toml' is not a flag | " + hint + "--config=w/job.toml");
  EXPECT_EQ(mistake({"--snapshot=output/a", "new.csv"}),
            "'new.csv' is not a flag | " + hint + "--data=new.csv");
  EXPECT_EQ(mistake({"--snapshot=a", "--data=b", "c"}), "'c' is not a flag | see --help");
}

// CLI11 would take a number in octal, brackets as a list, and the next flag for an empty value.
TEST_F(FlagsTest, TakesValuesLiterally) {
  EXPECT_EQ(mistake({"--port=0080", "--set=[a,b]", "--bind=", "--local"}), "none");
  EXPECT_EQ(port_, 80U);
  EXPECT_EQ(sets_, (std::vector<std::string>{"[a,b]"}));
  EXPECT_EQ(bind_, "");
  EXPECT_TRUE(local_);
  EXPECT_EQ(mistake({"--set=c=x\ny"}), "none");
  EXPECT_EQ(sets_.back(), "c=x\ny");
  EXPECT_EQ(mistake({"--bind=YWI="}), "none");
  EXPECT_EQ(bind_, "YWI=");
  EXPECT_EQ(mistake({"--bind", "--port=1"}), "none");
  EXPECT_EQ(bind_, "--port=1");
  EXPECT_EQ(mistake({"--port=0x50"}), "--port: '0x50' is not a whole number from 1 to 65535 | ");
}

TEST_F(FlagsTest, TheLastValueOfARepeatedFlagCounts) {
  EXPECT_EQ(mistake({"--port=1", "--local", "--port=2", "--nolocal", "--bind=a", "--bind=b"}),
            "none");
  EXPECT_EQ(port_, 2U);
  EXPECT_EQ(bind_, "b");
  EXPECT_FALSE(local_);
  EXPECT_EQ(mistake({"--port=x", "--port=3"}),
            "--port: 'x' is not a whole number from 1 to 65535 | ");
}

TEST_F(FlagsTest, ListsLeaveEmptyValuesOut) {
  EXPECT_EQ(mistake({"--pservers=a,,[::1]:7164,"}), "none");
  EXPECT_EQ(hosts_, (std::vector<std::string>{"a", "[::1]:7164"}));
  EXPECT_EQ(mistake({"--pservers="}), "none");
  EXPECT_TRUE(hosts_.empty());
}

TEST_F(FlagsTest, TheEnvironmentIsReadAndFlagsWin) {
  EXPECT_EQ(environment_mistake({"PADDLE_INIT_PORT=90", "PADDLE_INIT_LOCAL=0", "PORT=1",
                                 "PADDLE_INIT_TRAINER_ID=3", "PADDLE_INIT_SET=a=1\nb=2",
                                 "PADDLE_INIT_BIND="}),
            "none");
  EXPECT_EQ(mistake({"--port=91", "--set=c=3"}), "none");
  EXPECT_EQ(port_, 91U);
  EXPECT_FALSE(local_);
  EXPECT_EQ(bind_, "");
  EXPECT_EQ(sets_, (std::vector<std::string>{"a=1", "b=2", "c=3"}));
}

TEST_F(FlagsTest, MistakesInTheEnvironmentNameTheVariable) {
  EXPECT_EQ(environment_mistake({"PADDLE_INIT_PORT=many"}),
            "PADDLE_INIT_PORT: 'many' is not a whole number from 1 to 65535 | ");
  EXPECT_EQ(environment_mistake({"PADDLE_INIT_PORT="}),
            "PADDLE_INIT_PORT: '' is not a whole number from 1 to 65535 | ");
  EXPECT_EQ(environment_mistake({"PADDLE_INIT_LOCAL=maybe"}),
            "PADDLE_INIT_LOCAL: 'maybe' is neither true nor false | ");
}

TEST_F(FlagsTest, HelpListsEveryFlagWithItsDefault) {
  const std::string help = flags_.help(80);
  EXPECT_NE(help.find("--port=... "), std::string::npos) << help;
  EXPECT_NE(help.find(" the first port (7164)\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--local "), std::string::npos) << help;
  EXPECT_NE(help.find(" no pservers (true)\n"), std::string::npos) << help;
}

}  // namespace
}  // namespace paddle::commands
