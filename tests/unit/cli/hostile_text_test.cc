// Whatever a node says, in whatever place it says it, paints no terminal.
#include <array>
#include <filesystem>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "cli/command_line.h"
#include "tests/support/fake_agent_client.h"
#include "tests/support/temporary_folder.h"

namespace paddle::cli {
namespace {

using namespace std::string_view_literals;

constexpr auto kHostile = std::to_array<std::string_view>({
    "\x1b[2J",         // clear the screen
    "\x1b[H",          // to its beginning
    "\x1b[31m",        // red from here on
    "\x1b[8m",         // invisible
    "\x1b[5m",         // blinking
    "\x1b[1A\x1b[2K",  // over the line above
    "\x1b[99D",        // to the left
    "\x1b[6n",         // makes the terminal type its answer
    "\x1b[c",          // likewise
    "\x1bZ",           // likewise
    "\x1b[>q",         // likewise
    "\x1b[?1049h",     // another screen
    "\x1b[?25l",       // no cursor
    "\x1b[?1000h",     // the mouse types
    "\x1b[?2004h",     // bracketed paste
    "\x1b[?7l",        // no wrapping
    "\x1b[4i",         // to the printer
    "\x1b[r",          // scrolling region
    "\x1b"
    "c",                                                 // reset
    "\x1b#8",                                            // filled with E
    "\x1b(0",                                            // line drawing letters
    "\x1b]0;owned\a",                                    // window title
    "\x1b]2;owned\x1b\\",                                // likewise
    "\x1b]52;c;cm0gLXJmIH4=\a",                          // clipboard
    "\x1b]8;;http://evil.example\x1b\\x\x1b]8;;\x1b\\",  // link
    "\x1b]4;1;rgb:00/00/00\a",                           // palette
    "\x1b]1337;File=inline=1:AAAA\a",                    // picture
    "\x1b]10;?\a",                                       // asks for a colour
    "\x1bP+q544e\x1b\\",                                 // asks for termcap
    "\x1bPq#0;2;0;0;0#0~~\x1b\\",                        // sixel
    "\x1b_payload\x1b\\",                                // application command
    "\x1b^private\x1b\\",                                // privacy message
    "\x1bX start\x1b\\",                                 // start of string
    "\xc2\x9b"
    "2J",  // C1 control sequence
    "\xc2\x9d"
    "0;owned\xc2\x9c",  // C1 window title
    "\xc2\x90"
    "q\xc2\x9c",  // C1 device control
    "\x9b"
    "2J",  // the same byte alone
    "\xe0\x82\x9b"
    "2J",  // overlong
    "\xf0\x80\x82\x9b"
    "2J",            // likewise
    "ok\rFAILED",    // over the beginning of the line
    "ok\b\b\b\bno",  // likewise
    "\x0e\x0f",      // other character sets
    "\a\a\a",        // bell
    "\v\f",          // down
    "a\0b"sv,        // end of a C string
    "\x7f\x7f\x7f",  // delete
    "\x05",          // enquiry
    "\x11\x13",      // flow control
    "\x18\x1a",      // cancel
    "\xe2\x80\xae"
    "txt.exe",  // right to left override
    "\xe2\x81\xa6"
    "x\xe2\x81\xa9",  // isolates
    "\xe2\x80\x8f"
    "abc",  // right to left mark
    "\xd8\x9c"
    "abc",  // Arabic letter mark
    "\xe2\x80\xa8"
    "line",  // line separator
    "\xe2\x80\xa9"
    "paragraph",                         // paragraph separator
    "\xf3\xa0\x81\x81\xf3\xa0\x81\xbf",  // tags, which nobody sees
    "\xef\xbb\xbf"
    "mark",              // zero width no-break space
    "\xed\xa0\x80",      // surrogate
    "\xf4\x90\x80\x80",  // past Unicode
    "\xff\xfe\x80",      // no UTF-8
});

// The first character that a terminal would not simply show, by itself; "" when there is none. Not
// with escape_control's own tables, so that a gap in them is found.
std::string first_bad(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = [&](std::size_t k) {
      return i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
    };
    const unsigned lead = byte(0);
    const std::size_t length = lead < 0x80   ? 1
                               : lead < 0xc2 ? 0
                               : lead < 0xe0 ? 2
                               : lead < 0xf0 ? 3
                                             : 4;
    std::uint32_t point = length < 2 ? lead : lead & (0x7fU >> length);
    bool bad = length == 0;
    for (std::size_t k = 1; k < length; ++k) {
      bad = bad || (byte(k) & 0xc0U) != 0x80;
      point = (point << 6U) | (byte(k) & 0x3fU);
    }
    constexpr std::array<std::uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    bad = bad || point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff);
    bad = bad || (point < 0x20 && point != '\n' && point != '\t') ||
          (point >= 0x7f && point <= 0x9f) || point == 0x61c || point == 0x200e ||
          point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
          (point >= 0x2066 && point <= 0x2069) || point == 0xfeff ||
          (point >= 0xe0000 && point <= 0xe007f);
    if (bad) return fmt::format("U+{:04x} at {} of: {}", point, i, testing::PrintToString(text));
    i += std::max<std::size_t>(length, 1);
  }
  return "";
}

class HostileTextTest : public testing::TestWithParam<std::string_view> {
 protected:
  void SetUp() override {
    folder_.write("c.toml",
                  "name = \"t\"\n[[node]]\nname = \"n\"\nlauncher = \"local\"\ncount = 2\n");
    folder_.write("paddle", "engine");
    bad_ = GetParam();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      remote::FakeNode& node = nodes_[i];
      node.os = bad_;
      remote::ProcessStatus status;
      status.job = "job";
      status.name = "trainer-" + std::to_string(i) + bad_;
      status.log = fmt::format("jobs/job/node_{}/train.log", i);
      status.state = remote::ProcessState::kExited;
      status.exit_code = 1;
      status.started_unix_ms = 1000;
      status.ended_unix_ms = 2000;
      node.processes = {status};
      node.files[status.log] = bad_ + "\n" + bad_;
      // A metrics line is JSON, and JSON itself allows most of these in a string.
      node.files[fmt::format("jobs/job/node_{}/metrics.jsonl", i)] =
          "{\"kind\":\"batch\",\"pass\":0,\"batch\":1,\"samples\":1,\"cost\":0.5,\"" + bad_ +
          "\":\"" + bad_ + "\"}\n";
      node.remaining = {bad_};
      node.on_run = [this](const remote::CommandSpec&,
                           const remote::CommandOutput& output) -> Result<remote::CommandEnd> {
        output(bad_, false);
        output("one\n" + bad_, true);
        return remote::CommandEnd{};
      };
    }
  }

  int run(std::vector<std::string> arguments) {
    std::ostringstream out, err;
    Console console(out, err, {});
    Context context{
        console,
        clock_,
        [this](const remote::NodeSpec& spec, bool) -> Result<std::unique_ptr<remote::AgentClient>> {
          remote::FakeNode& fake = nodes_[spec.name.back() - std::size_t{'0'}];
          if (fake.unreachable)
            return Error{Errc::kUnreachable, "node " + spec.name + ": " + bad_, bad_};
          return std::unique_ptr<remote::AgentClient>(new remote::FakeAgentClient(spec, fake));
        },
        [](Duration) {},
        [] { return false; },
        [] { return std::int64_t{1}; },
        folder_ / "paddle",
        folder_.path()};
    const std::string what = arguments[0] + " " + arguments.back();
    if (arguments[0] != "up")
      arguments.insert(arguments.begin() + 1, {"--cluster", folder_ / "c.toml"});
    const int code = run_app(context, std::move(arguments));
    EXPECT_EQ(first_bad(out.str()), "") << what << " on stdout";
    EXPECT_EQ(first_bad(err.str()), "") << what << " on stderr";
    shown_ += out.str().size() + err.str().size();
    return code;
  }

  test::TemporaryFolder folder_;
  std::string bad_;
  SteadyClock clock_;
  std::array<remote::FakeNode, 2> nodes_;
  std::size_t shown_ = 0;
};

TEST_P(HostileTextTest, IsEscapedInEveryPlaceItMayComeFrom) {
  EXPECT_NE(first_bad(bad_), "") << "what is tested here is no danger";
  EXPECT_EQ(run({"status"}), 0);
  EXPECT_EQ(run({"status", "--json"}), 0);
  EXPECT_EQ(run({"logs"}), 0);
  EXPECT_EQ(run({"logs", "--json"}), 0);
  EXPECT_EQ(run({"logs", "--metrics"}), 0);
  EXPECT_EQ(run({"metrics"}), 0);
  EXPECT_EQ(run({"exec", "--", "any"}), 0);
  EXPECT_EQ(run({"exec", "--json", "--", "any"}), 0);
  EXPECT_EQ(run({"exec", "--stream", "--", "any"}), 0);
  run({"report"});
  run({"fetch"});
  EXPECT_EQ(run({"up", folder_ / "c.toml"}), 0);
  nodes_[0].taken_ports[7164] = bad_;
  EXPECT_NE(run({"up", folder_ / "c.toml"}), 0);
  nodes_[0].left.add_processes(bad_);
  nodes_[0].left.set_process_count(1);
  nodes_[0].probes["127.0.0.1:7166"] = {remote::ProbeOutcome::kNoRoute, bad_, {}, 0};
  EXPECT_NE(run({"check"}), 0);
  EXPECT_NE(run({"check", "--json"}), 0);
  nodes_[1].unreachable = true;
  EXPECT_NE(run({"status"}), 0);
  EXPECT_NE(run({"exec", "--", "any"}), 0);
  nodes_[0].processes[0].job = bad_;
  run({"status", "--job", "absent"});  // which names the jobs there are
  run({"status"});
  run({"fetch"});
  nodes_[1].unreachable = false;
  run({"teardown", "--yes", "--discard"});
  EXPECT_GT(shown_, 1000U);
  // Nor did any name of theirs become a file's.
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path())) {
    EXPECT_EQ(first_bad(entry.path().string()), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Text, HostileTextTest, testing::ValuesIn(kHostile),
                         [](const auto& one) { return fmt::format("Number{}", one.index); });

TEST(HostileText, FortyAtLeast) {
  EXPECT_GE(kHostile.size(), 40U);
}

}  // namespace
}  // namespace paddle::cli
