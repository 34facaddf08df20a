#include "cli/command_line.h"

#include <sstream>

#include <gtest/gtest.h>

#include "cli/commands/commands.h"
#include "cli/console/console.h"

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
  const auto seen = parse({"show", "a", "--", "--job", "[x]", "--", "--json"});
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(seen->words, (std::vector<std::string>{"a", "--job", "[x]", "--", "--json"}));
  EXPECT_EQ(seen->job, "");
  EXPECT_FALSE(wants_json({"show", "--", "--json"}));
  EXPECT_TRUE(wants_json({"show", "--json", "--"}));
  EXPECT_TRUE(wants_json({"show", "--json=true"}));
  EXPECT_FALSE(wants_json({"show", "--json=false"}));
}

// CLI11 would take some of them for lists, for the end of a list or of the command.
TEST(CommandLine, WordsBeforeTwoDashesReachTheCommandAsTheyAreToo) {
  const std::vector<std::string> words = {
      "[x]", "[a,b]", "[]",  "[[x]]", "{}", "%%", "%",    "++",   "",   "a,b",  "'q'", "\"d\"",
      "\\",  "a\\n",  "a b", "=",     "x=", "]",  "show", "look", "-5", "\xe9", "/?",  "]\x1f"};
  std::vector<std::string> arguments = words;
  arguments.insert(arguments.begin(), "show");
  auto seen = parse(arguments);
  ASSERT_TRUE(seen) << seen.error().message;
  EXPECT_EQ(seen->words, words);
  for (const std::string& word : words) {
    seen = parse({"show", word});
    ASSERT_TRUE(seen) << word << ": " << seen.error().message;
    EXPECT_EQ(seen->words, std::vector<std::string>{word});
    for (const auto& job : {std::vector<std::string>{"--job=" + word}, {"--job", word}}) {
      arguments = {"show", "--set", word, "--set=" + word};
      arguments.insert(arguments.end(), job.begin(), job.end());
      arguments.emplace_back("last");
      seen = parse(arguments);
      if (word.empty()) {
        ASSERT_FALSE(seen) << "an empty value is refused below";
        continue;
      }
      ASSERT_TRUE(seen) << word << ": " << seen.error().message;
      EXPECT_EQ(seen->set, (std::vector<std::string>{word, word}));
      EXPECT_EQ(seen->job, word);
      EXPECT_EQ(seen->words, std::vector<std::string>{"last"});
    }
  }
  const auto wrong = parse({"show", "--format", "[x]"});
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "--format: unknown value '[x]'; use one of: json, text");
}

TEST(CommandLine, AnEmptyValueIsNotTheDefault) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"show", "--job", ""}, {"show", "--job="}, {"look", "--since="}}) {
    const auto seen = parse(words);
    ASSERT_FALSE(seen) << words[1];
    EXPECT_EQ(seen.error().code, Errc::kUsage);
    EXPECT_NE(seen.error().message.find(" is empty"), std::string::npos) << seen.error().message;
  }
  for (const std::vector<std::string>& words : {std::vector<std::string>{"stop", ""},
                                                {"stop", "--", ""},
                                                {"exec", "--on", "", "true"},
                                                {"teardown", "--on="},
                                                {"status", "--cluster", ""},
                                                {"train", ""}}) {
    EXPECT_FALSE(parse_command_line(all_commands(), words)) << words[0];
  }
  EXPECT_TRUE(parse_command_line(all_commands(), {"exec", "--", "printf", ""}));
}

TEST(CommandLine, KnowsWhichWordIsTheCommand) {
  const auto at = [](std::vector<std::string> arguments) {
    const auto line = parse_command_line(all_commands(), std::move(arguments));
    return line ? line->command_at : 99;
  };
  EXPECT_EQ(at({"train", "train"}), 0U);
  EXPECT_EQ(at({"--password-file", "train", "--timeout=5", "train", "train"}), 3U);
  EXPECT_EQ(at({"--json", "attach", "train"}), 1U);
}

TEST(CommandLine, WordsAfterTwoDashesAreTheArgumentsThatAreNotGivenYet) {
  const auto workspace = [](std::vector<std::string> arguments) -> std::string {
    const auto line = parse_command_line(all_commands(), std::move(arguments));
    return line ? line->workspace : line.error().message + " | " + line.error().hint;
  };
  EXPECT_EQ(workspace({"train", "--", "dw"}), "dw");
  EXPECT_EQ(workspace({"plan", "--trainers", "2", "--", "--dw"}), "--dw");
  EXPECT_EQ(workspace({"render", "slurm", "--", "status"}), "status");
  EXPECT_EQ(workspace({"render", "--", "slurm", "dw"}), "dw");
  EXPECT_EQ(workspace({"put", "--", "-x", "/srv/"}), "") << "its list is not empty";
  EXPECT_EQ(workspace({"train", "dw", "--"}), "dw");
  EXPECT_EQ(workspace({"train", "dw", "--", "python", "train.py"}),
            "The following arguments were not expected: python train.py | see paddlectl train "
            "--help");
  EXPECT_EQ(workspace({"jobs", "--", "--json"}),
            "The following argument was not expected: --json | see paddlectl jobs --help");
  EXPECT_EQ(workspace({"render", "--", "lsf"}),
            "PLATFORM: unknown value 'lsf'; use one of: kubernetes, slurm, openmpi | see paddlectl "
            "render --help");
  EXPECT_EQ(workspace({"put", "--"}), "put needs FILES | see paddlectl put --help");
  EXPECT_EQ(workspace({"render", "--"}), "render needs PLATFORM | see paddlectl render --help");
  EXPECT_EQ(workspace({"logs", "--job", "a", "--", "b"}),
            "JOB excludes --job | see paddlectl logs --help");
}

TEST(CommandLine, AnUnknownOptionIsNamedWhateverItsValueWouldMean) {
  const auto message = [](std::vector<std::string> arguments) {
    const auto line = parse_command_line(all_commands(), std::move(arguments));
    return line ? "" : line.error().message + " | " + line.error().hint;
  };
  for (const std::string command : {"logs", "status", "fetch", "stop"}) {
    for (const char* unknown : {"--frob", "--frob=5"}) {
      const std::string said = message({command, "--job", "j", unknown, "5"});
      EXPECT_TRUE(said.starts_with("unknown option '--frob'")) << said;
      EXPECT_TRUE(said.ends_with(" | see paddlectl " + command + " --help")) << said;
    }
    EXPECT_EQ(message({command, "--job", "j", "5"}), message({command, "5", "--job", "j"}));
    EXPECT_NE(message({command, "--job", "j", "5"}).find("excludes"), std::string::npos);
    EXPECT_TRUE(
        message({command, "--job", "j", "5"}).ends_with(" | see paddlectl " + command + " --help"));
  }
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
  EXPECT_NE(of_command->help.find("--format {json,text}"), std::string::npos) << of_command->help;
  const auto global = parse_command_line(kCommands, {"--parallel", "3", "--json"});
  ASSERT_TRUE(global);
  EXPECT_FALSE(global->run);
  EXPECT_EQ(global->global.parallel, 3U);
  EXPECT_TRUE(global->global.json);
}

std::string help_of(const std::vector<std::string>& arguments) {
  const auto line = parse_command_line(all_commands(), arguments);
  return line ? line->help : line.error().message;
}

TEST(CommandLine, CommandsStandInGroups) {
  const std::string help = help_of({"--help"});
  std::size_t last = 0;
  for (const char* const group :
       {"\nSet up:\n", "\nRun:\n", "\nLook:\n", "\nNodes:\n", "\nOther:\n"}) {
    const std::size_t at = help.find(group);
    ASSERT_NE(at, std::string::npos) << group << help;
    EXPECT_GT(at, last);
    last = at;
  }
  for (const Command& command : all_commands()) EXPECT_FALSE(command.group.empty()) << command.name;
}

TEST(CommandLine, HelpShowsWhatIsRequiredAndWhatValuesAre) {
  EXPECT_NE(help_of({"put", "--help"}).find("Usage: paddlectl put [OPTIONS] FILES...\n"),
            std::string::npos)
      << help_of({"put", "--help"});
  EXPECT_NE(help_of({"render", "--help"}).find("[OPTIONS] PLATFORM [WORKSPACE]"),
            std::string::npos);
  for (const Command& command : all_commands()) {
    const std::string help = help_of({std::string(command.name), "--help"});
    for (const char* const poor : {" TEXT", " UINT", " INT", "REQUIRED"})
      EXPECT_EQ(help.find(poor), std::string::npos) << command.name << help;
    const bool says_nodes = help.find("--password-file") != std::string::npos;
    EXPECT_EQ(says_nodes, help.find("--cluster") != std::string::npos || command.name == "up")
        << command.name;
  }
  const auto missing = parse_command_line(all_commands(), {"put"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "put needs FILES");
  EXPECT_EQ(missing.error().hint, "see paddlectl put --help");
}

TEST(CommandLine, DurationsAreWrittenInOneWay) {
  for (const auto& [text, seconds] :
       {std::pair("90", 90U), {"90s", 90U}, {"10m", 600U}, {"2h", 7200U}, {"1d", 86400U}}) {
    const auto line = parse_command_line(kCommands, {"--timeout", text, "show"});
    ASSERT_TRUE(line) << text << line.error().message;
    EXPECT_EQ(line->global.timeout, seconds);
  }
  for (const char* const bad : {"0s", "8d", "m", "1x", "-1s", ""}) {
    const auto line = parse_command_line(kCommands, {"--timeout", bad, "show"});
    ASSERT_FALSE(line) << bad;
    EXPECT_EQ(line.error().code, Errc::kUsage);
  }
}

TEST(CommandLine, VersionHasAShortName) {
  const auto line = parse_command_line(kCommands, {"-V"});
  ASSERT_TRUE(line);
  EXPECT_TRUE(line->global.version);
}

TEST(CommandLine, HelpFitsATerminalOfEightyColumnsAndKeepsCommandsWhole) {
  std::vector<std::string> texts{help_of({"--help"})};
  for (const Command& command : all_commands()) {
    texts.push_back(help_of({std::string(command.name), "--help"}));
    EXPECT_NE(texts.back().find(command.examples), std::string::npos) << texts.back();
  }
  for (const std::string& text : texts) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) EXPECT_LE(display_width(line), 80U) << line;
  }
  EXPECT_NE(help_of({"jobs", "--help"})
                .find("\n  --on,--node NODES           only these nodes and groups:\n"
                      "                              gpu,node[01-04],!node02; default: all\n"),
            std::string::npos)
      << help_of({"jobs", "--help"});
}

TEST(CommandLine, HelpHasOneLineForVersion) {
  const std::string help = help_of({"--help"});
  const std::size_t at = help.find("\n  version ");
  ASSERT_NE(at, std::string::npos) << help;
  const std::string line = help.substr(at + 1, help.find('\n', at + 1) - at - 1);
  EXPECT_TRUE(line.ends_with(" print the version, and that of the SSH library")) << line;
}

// Every command that has a job takes it by place, as --job and as --name.
TEST(CommandLine, AJobIsNamedInOneWayEverywhere) {
  for (const Command& command : all_commands()) {
    for (const Option& option : command.invoke().options) {
      if (option.value_name != "JOB" || option.is_positional()) continue;
      EXPECT_TRUE(option.name == "--job,--name" || option.name == "--name,--job") << command.name;
    }
  }
  for (const char* const name :
       {"attach", "status", "logs", "metrics", "report", "fetch", "stop", "restart"}) {
    for (const std::vector<std::string>& job :
         {std::vector<std::string>{"j"}, {"--job", "j"}, {"--name=j"}}) {
      std::vector<std::string> arguments{name};
      arguments.insert(arguments.end(), job.begin(), job.end());
      EXPECT_TRUE(parse_command_line(all_commands(), arguments)) << name << " " << job.front();
    }
  }
  EXPECT_FALSE(parse_command_line(all_commands(), {"status", "j", "--job", "k"}));
}

}  // namespace
}  // namespace paddle::cli
