#include "cli/command_line.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

struct Options {
  std::string job;
  std::vector<std::string> words, set;
  std::uint32_t count = 0;
  std::int64_t tail = -1;
  std::string since, format;
  bool now = false;
};
Options g_seen;

OptionList list_options(Options& options) {
  return {{"--job", "job", &options.job},
          {"words", "words", &options.words},
          {"--set", "set", &options.set},
          {"--count", "count", &options.count, "", 1, 8},
          {"--tail", "tail", &options.tail, "", 0, 100},
          {.name = "--since", .help = "since", .target = &options.since, .excludes = {"--tail"}},
          {.name = "--format",
           .help = "format",
           .target = &options.format,
           .choices = {"json", "text"}},
          {"-n,--now", "now", &options.now}};
}

Status run(Context&, const Options& options) {
  g_seen = options;
  return {};
}

const std::vector<Command> kCommands{
    {"show", "show", "  show", [] { return invocation(list_options, run); }, "look"}};

// Parses and runs: the options the command saw, or the error.
Result<Options> parse(std::vector<std::string> arguments) {
  g_seen = {};
  PADDLE_TRY(const CommandLine line, parse_command_line(kCommands, std::move(arguments)));
  if (!line.run) return Error{Errc::kFailed, "no command", ""};
  std::ostringstream out, err;
  Console console(out, err, {});
  const SteadyClock clock;
  Context context{console, clock, {}, {}, {}, {}, "", ""};
  PADDLE_TRY_STATUS(line.run(context));
  return g_seen;
}

TEST(CommandLine, FillsTheOptionsOfTheCommandAlone) {
  const auto seen = parse({"show", "--job", "j", "a", "--set", "x=1", "--set", "y=2", "b", "-n",
                           "--count=3", "--tail", "0", "--format", "text"});
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(seen->job, "j");
  EXPECT_EQ(seen->words, (std::vector<std::string>{"a", "b"})) << "--set takes one word each";
  EXPECT_EQ(seen->set, (std::vector<std::string>{"x=1", "y=2"}));
  EXPECT_EQ(seen->count, 3U);
  EXPECT_EQ(seen->tail, 0);
  EXPECT_TRUE(seen->now);
  EXPECT_EQ(seen->format, "text");
  const auto fresh = parse({"look"});
  ASSERT_TRUE(fresh) << "by its alias";
  EXPECT_TRUE(fresh->job.empty() && fresh->words.empty() && !fresh->now) << "nothing is kept";
}

TEST(CommandLine, WordsAfterTwoDashesReachTheCommandAsTheyAre) {
  const auto seen = parse({"show", "a", "--", "--job", "x", "--", "--json"});
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(seen->words, (std::vector<std::string>{"a", "--job", "x", "--", "--json"}));
  EXPECT_EQ(seen->job, "");
  EXPECT_FALSE(wants_json({"show", "--", "--json"}));
  EXPECT_TRUE(wants_json({"show", "--json", "--"}));
}

TEST(CommandLine, RefusesValuesOutOfTheirRangeAndOptionsThatExcludeEachOther) {
  for (const std::string bad : {"0", "9", "-1", "1.5", "x", "", "4294967297"}) {
    const auto seen = parse({"show", "--count=" + bad});
    ASSERT_FALSE(seen) << bad;
    EXPECT_EQ(seen.error().code, Errc::kUsage);
  }
  EXPECT_FALSE(parse({"show", "--tail", "101"}));
  EXPECT_TRUE(parse({"show", "--tail", "100"}));
  EXPECT_FALSE(parse({"show", "--format", "xml"}));
  const auto both = parse({"show", "--tail", "1", "--since", "1h"});
  ASSERT_FALSE(both);
  EXPECT_NE(both.error().message.find("excludes"), std::string::npos) << both.error().message;
  EXPECT_EQ(both.error().hint, "see paddlectl show --help");
}

TEST(CommandLine, HelpAndGlobalOptionsNeedNoCommand) {
  const auto help = parse_command_line(kCommands, {"--help"});
  ASSERT_TRUE(help);
  EXPECT_EQ(help->help, program_help(kCommands));
  EXPECT_NE(help->help.find("show, look"), std::string::npos) << help->help;
  const auto of_command = parse_command_line(kCommands, {"show", "--help"});
  ASSERT_TRUE(of_command);
  EXPECT_NE(of_command->help.find("--format TEXT:{json,text}"), std::string::npos)
      << of_command->help;
  const auto global = parse_command_line(kCommands, {"--parallel", "3", "--json"});
  ASSERT_TRUE(global);
  EXPECT_FALSE(global->run);
  EXPECT_EQ(global->global.parallel, 3U);
  EXPECT_TRUE(global->global.json);
}

}  // namespace
}  // namespace paddle::cli
