#include "cli/job/trainer_environment.h"

#include <stdlib.h>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

std::map<std::string, std::string> variables_of(const std::vector<std::string>& arguments,
                                                const std::vector<std::string>& pservers) {
  const std::vector<std::string> trainers{"10.0.0.1:9000", "10.0.0.2:9000"};
  const std::vector<std::size_t> gpus;
  return trainer_environment(arguments, {.index = 1,
                                         .local_index = 0,
                                         .local_count = 1,
                                         .trainer_count = 3,
                                         .engine = "/root/bin/paddle",
                                         .pservers = pservers,
                                         .trainers = trainers,
                                         .gpus = gpus,
                                         .master_address = "10.0.0.1",
                                         .master_port = 9001});
}

TEST(TrainerEnvironment, FlagsBecomeVariables) {
  auto variables = variables_of({"train", "--config=job.toml", "--resume"}, {"10.0.0.1:7164"});
  EXPECT_EQ(variables["PADDLE_INIT_CONFIG"], "job.toml");
  EXPECT_EQ(variables["PADDLE_INIT_RESUME"], "true");
  EXPECT_FALSE(variables.contains("PADDLE_INIT_TRAIN")) << "the command is no flag";
  EXPECT_EQ(variables["PADDLE_PROGRAM"], "/root/bin/paddle");
  EXPECT_EQ(variables["PADDLE_INIT_TRAINER_COUNT"], "3");
  EXPECT_EQ(variables["PADDLE_TRAINER_ID"], "1");
  EXPECT_EQ(variables["PADDLE_TRAINERS_NUM"], "2");
  EXPECT_EQ(variables["PADDLE_CURRENT_ENDPOINT"], "10.0.0.2:9000");
  EXPECT_EQ(variables["MASTER_ADDR"] + ":" + variables["MASTER_PORT"], "10.0.0.1:9001");
  EXPECT_EQ(variables["RANK"], "1");
  EXPECT_FALSE(variables.contains("FLAGS_selected_gpus"));
}

TEST(TrainerEnvironment, PserversOfOnePortAreNamedByAddressAndOthersWithTheirPorts) {
  auto same = variables_of({}, {"10.0.0.1:7164", "10.0.0.2:7164"});
  EXPECT_EQ(same["PADDLE_INIT_PSERVERS"], "10.0.0.1,10.0.0.2");
  EXPECT_EQ(same["PADDLE_INIT_PORT"], "7164");
  auto other = variables_of({}, {"10.0.0.1:7164", "10.0.0.2:7164", "10.0.0.1:7168"});
  EXPECT_EQ(other["PADDLE_INIT_PSERVERS"], "10.0.0.1:7164,10.0.0.2:7164,10.0.0.1:7168");
  EXPECT_EQ(other["PADDLE_INIT_PORT"], "7164");
  EXPECT_EQ(other["PADDLE_PSERVERS_IP_PORT_LIST"], other["PADDLE_INIT_PSERVERS"]);
  EXPECT_EQ(variables_of({}, {"[::1]:7164"})["PADDLE_INIT_PSERVERS"], "[::1]");
}

TEST(ParseEnvironment, KeysAreNamesAndOursAreTaken) {
  const auto good = parse_environment({"A_1=x=y", "b=", "A_1=z"});
  ASSERT_TRUE(good);
  EXPECT_EQ(*good, (std::map<std::string, std::string>{{"A_1", "z"}, {"b", ""}}));
  for (const char* bad : {"", "A", "=x", "1A=x", "A B=x", "A-B=x", "PADDLECTL_X=1"}) {
    EXPECT_FALSE(parse_environment({bad})) << bad;
  }
}

TEST(Environment, AKeyAloneTakesItsValueFromHere) {
  ::setenv("PADDLE_TEST_TOKEN", "t", 1);
  const auto taken = parse_environment({"PADDLE_TEST_TOKEN", "B=2"});
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->at("PADDLE_TEST_TOKEN"), "t");
  ::unsetenv("PADDLE_TEST_TOKEN");
  const auto unset = parse_environment({"PADDLE_TEST_TOKEN"});
  ASSERT_FALSE(unset);
  EXPECT_EQ(unset.error().code, Errc::kUsage);
  EXPECT_NE(unset.error().message.find("'PADDLE_TEST_TOKEN' is not set here"), std::string::npos);
}

TEST(Environment, OfAFileHasALineForEach) {
  const test::TemporaryFolder folder;
  const auto read = read_environment_file(folder.write("vars", "# c\n\nA=1\r\n  B=x y=z\nC=\n"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, (std::map<std::string, std::string>{{"A", "1"}, {"B", "x y=z"}, {"C", ""}}));
  const auto bad = read_environment_file(folder.write("bad", "A=1\nnot a line\n"));
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().message.starts_with(folder / "bad:2: 'not a line' is not NAME=VALUE"));
  EXPECT_EQ(read_environment_file(folder / "none").error().code, Errc::kUsage);
}

TEST(Environment, OfAFileMayBeginWithAByteOrderMark) {
  const test::TemporaryFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  for (const std::string& text :
       {mark + "A=1\r\nB=2\r\n", mark + "# c\nA=1\nB=2", mark + "\nA=1\nB=2\n", mark + "A=1\rB=2\r",
        std::string("A=1\rB=2")}) {
    const auto read = read_environment_file(folder.write("vars", text));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, (std::map<std::string, std::string>{{"A", "1"}, {"B", "2"}})) << text;
  }
  EXPECT_TRUE(read_environment_file(folder.write("vars", mark))->empty());
  const auto second = read_environment_file(folder.write("vars", "A=1\n" + mark + "B=2\n"));
  ASSERT_FALSE(second) << "only the first one is a mark";
  EXPECT_TRUE(second.error().message.starts_with(folder / "vars:2: "));
  for (const std::string& text : {std::string("\xff\xfe"
                                              "A\0=\0",
                                              6),
                                  std::string("\xfe\xff\0A", 4)}) {
    const auto utf16 = read_environment_file(folder.write("vars", text));
    ASSERT_FALSE(utf16);
    EXPECT_EQ(utf16.error().message, (folder / "vars") + " is in UTF-16");
    EXPECT_EQ(utf16.error().hint, "save it as UTF-8");
  }
}

}  // namespace
}  // namespace paddle::cli
