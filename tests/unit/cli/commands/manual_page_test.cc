// Completion scripts and the man page of a small table of commands.
#include "cli/commands/manual_page.h"

#include <gtest/gtest.h>

namespace paddle::cli {
namespace {

struct Options {
  std::string file, folder, format;
  bool follow = false;
  std::int64_t tail = 0;
};

OptionList list_options(Options& options) {
  return {{"file", "the [first] file: it's read", &options.file, "FILE"},
          {"--output", "folder", &options.folder, "DIR"},
          {.name = "--format",
           .help = "json or text",
           .target = &options.format,
           .choices = {"json", "text"}},
          {"-f,--follow", "follow", &options.follow},
          {"--tail", "lines", &options.tail}};
}

Status run(Context&, const Options&) {
  return {};
}

std::vector<CommandWords> words() {
  return words_of({{"show", "show it's [state]", "  .paddlectl show\n  'x' \\n",
                    [] { return invocation(list_options, run); }}});
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(CommandWords, AreThoseOfTheTable) {
  const auto all = words();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "paddlectl");
  EXPECT_EQ(all[0].options[1].names, std::vector<std::string>{"--json"});
  const auto& options = all[1].options;
  ASSERT_EQ(options.size(), 6U);
  EXPECT_EQ(options[0].names, (std::vector<std::string>{"-h", "--help"}));
  EXPECT_EQ(options[1].place, "file");
  EXPECT_EQ(options[1].completes, Completes::kFile);
  EXPECT_EQ(options[2].completes, Completes::kFolder);
  EXPECT_EQ(options[3].value, "{json,text}");
  EXPECT_EQ(options[3].completes, Completes::kChoice);
  EXPECT_EQ(options[4].names, (std::vector<std::string>{"-f", "--follow"}));
  EXPECT_EQ(options[4].value, "") << "a flag takes none";
  EXPECT_EQ(options[5].value, "N");
}

TEST(Completion, BashCompletesValuesByTheirKind) {
  const std::string script = bash_completion(words());
  EXPECT_TRUE(has(script, "    show:--format) COMPREPLY=($(compgen -W 'json text' -- \"$word\"))"));
  EXPECT_TRUE(has(script, "    show:--output) compopt -o dirnames"));
  EXPECT_TRUE(has(script,
                  "      options='-h --help --output --format -f --follow --tail'\n"
                  "      [[ $word == -* ]] || compopt -o default"));
  EXPECT_FALSE(has(script, "show:-f")) << "a flag has no value to complete";
}

TEST(Completion, ZshAndFishQuoteWhatTheirShellsWouldRead) {
  const std::string zsh = zsh_completion(words());
  EXPECT_TRUE(has(zsh, "'show:show it'\\''s \\[state\\]'")) << zsh;
  EXPECT_TRUE(has(zsh, "'*--format[json or text]:value:(json text)'")) << zsh;
  EXPECT_TRUE(has(zsh, "'*-f[follow]'")) << zsh;
  const std::string fish = fish_completion(words());
  EXPECT_TRUE(has(fish, "-a show -d 'show it\\'s [state]'\n")) << fish;
  EXPECT_TRUE(has(fish, " -s f -l follow -d 'follow'\n")) << fish;
  EXPECT_TRUE(has(fish, " -l output -x -a '(__fish_complete_directories)' -d 'folder'\n")) << fish;
}

TEST(ManPage, BeginsWithExamplesAndEndsWithVariablesAndFiles) {
  const std::string page = man_page(words());
  std::size_t last = 0;
  for (const char* const section :
       {".SH EXAMPLES\n.nf\n# A first model", ".SH OPTIONS\n", ".SH COMMANDS\n",
        ".SH ENVIRONMENT\n", ".B PADDLECTL_CLUSTER\n", ".SH FILES\n", ".I cluster.toml\n",
        ".I ~/.config/paddlectl/current\n"}) {
    const std::size_t at = page.find(section);
    ASSERT_NE(at, std::string::npos) << section;
    EXPECT_GT(at, last) << section;
    last = at;
  }
}

TEST(ManPage, EscapesWhatTroffWouldRead) {
  const std::string page = man_page(words());
  EXPECT_TRUE(has(page, ".SS show\nshow it's [state]\n")) << page;
  EXPECT_TRUE(has(page, ".TP\n\\fB\\-f\\fR, \\fB\\-\\-follow\\fR\nfollow\n")) << page;
  EXPECT_TRUE(has(page, ".TP\n\\fIfile\\fR\n")) << page;
  EXPECT_TRUE(has(page, "\\fB\\-\\-format\\fR \\fI{json,text}\\fR\n")) << page;
  EXPECT_TRUE(has(page, "\\en\n.fi\n")) << "a backslash stays one: " << page;
  CommandWords dotted{"x", ".hidden", "'quoted", {}};
  const std::string second = man_page(std::vector<CommandWords>{words()[0], dotted});
  EXPECT_TRUE(has(second, "\n\\&.hidden\n")) << second;
  EXPECT_TRUE(has(second, "\n\\&'quoted\n")) << second;
}

}  // namespace
}  // namespace paddle::cli
