#include "cli/workspace/trainer_environment.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

std::map<std::string, std::string> variables_of(const std::vector<std::string>& arguments,
                                                const std::vector<std::string>& pservers) {
  const std::vector<std::string> trainers{"10.0.0.1:9000", "10.0.0.2:9000"};
  return trainer_environment(arguments, {1, 3, "/root/bin/paddle", pservers, trainers});
}

TEST(TrainerEnvironment, FlagsBecomeVariables) {
  auto variables = variables_of(
      {"train", "--config=job.toml", "--resume", "--set=a=1", "--set=b=2"}, {"10.0.0.1:7164"});
  EXPECT_EQ(variables["PADDLE_INIT_CONFIG"], "job.toml");
  EXPECT_EQ(variables["PADDLE_INIT_RESUME"], "true");
  EXPECT_EQ(variables["PADDLE_INIT_SET"], "a=1\nb=2");
  EXPECT_FALSE(variables.contains("PADDLE_INIT_TRAIN")) << "the command is no flag";
  EXPECT_EQ(variables["PADDLE_PROGRAM"], "/root/bin/paddle");
  EXPECT_EQ(variables["PADDLE_INIT_TRAINER_COUNT"], "3");
  EXPECT_EQ(variables["PADDLE_TRAINER_ID"], "1");
  EXPECT_EQ(variables["PADDLE_TRAINERS_NUM"], "2");
  EXPECT_EQ(variables["PADDLE_CURRENT_ENDPOINT"], "10.0.0.2:9000");
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

}  // namespace
}  // namespace paddle::cli
