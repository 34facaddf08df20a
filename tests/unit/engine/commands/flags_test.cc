#include "engine/commands/flags.h"

#include <gtest/gtest.h>

#include "base/version.h"
#include "engine/commands/build_options.h"

namespace paddle {
namespace {

class FlagsTest : public testing::Test {
 protected:
  FlagsTest() {
    flags_.number("port", "the first port", port_, 1, 65535);
    flags_.text("bind", "address", bind_);
    flags_.boolean("local", "no pservers", local_);
    flags_.repeated("set", "override", sets_);
  }

  std::string mistake(const std::vector<std::string>& arguments) {
    const Status status = flags_.parse(arguments);
    if (status) return "none";
    EXPECT_EQ(status.error().code, Errc::kUsage);
    return status.error().message + " | " + status.error().hint;
  }

  FlagSet flags_;
  std::uint32_t port_ = 7164;
  std::string bind_ = "127.0.0.1";
  bool local_ = true;
  std::vector<std::string> sets_;
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

TEST_F(FlagsTest, NamesMistakes) {
  EXPECT_EQ(mistake({"--prot=80"}), "unknown flag '--prot' | did you mean '--port'?");
  EXPECT_TRUE(mistake({"--noport"}).starts_with("unknown flag '--noport'"));
  EXPECT_EQ(mistake({"--port=70000"}), "--port: '70000' is not a whole number from 1 to 65535 | ");
  EXPECT_EQ(mistake({"--port=8x"}), "--port: '8x' is not a whole number from 1 to 65535 | ");
  EXPECT_EQ(mistake({"--local=maybe"}), "--local: 'maybe' is neither true nor false | ");
  EXPECT_EQ(mistake({"--bind"}), "--bind needs a value | ");
  EXPECT_EQ(mistake({"train"}), "'train' is not a flag | see --help");
}

TEST_F(FlagsTest, HelpListsEveryFlagWithItsDefault) {
  const std::string help = flags_.help();
  EXPECT_NE(help.find("--port=... "), std::string::npos) << help;
  EXPECT_NE(help.find(" the first port (7164)\n"), std::string::npos) << help;
  EXPECT_NE(help.find("--local "), std::string::npos) << help;
}

TEST(BuildOptions, NamesVersionAndOptions) {
  const std::string text = build_options();
  EXPECT_TRUE(text.starts_with(std::string("paddlectl engine ") + kProgramVersion)) << text;
  for (const char* option : {"with_gpu: OFF", "with_avx: ", "compiler: ", "blas: OpenBLAS"}) {
    EXPECT_NE(text.find(option), std::string::npos) << option << " in " << text;
  }
}

}  // namespace
}  // namespace paddle
