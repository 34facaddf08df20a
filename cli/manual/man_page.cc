#include "cli/manual/man_page.h"

#include <fmt/format.h>

#include "base/version.h"

namespace paddle::cli {
namespace {

constexpr std::string_view kEnvironment = R"(.SH ENVIRONMENT
.TP
.B NO_COLOR
When set to anything, nothing is coloured.
.TP
.B TERM
When it is dumb, nothing is coloured and no line is rewritten in place.
.TP
.B XDG_CACHE_HOME
Where hashes of pushed files are kept, in paddlectl/hashes; ~/.cache without it, or when it is no
absolute path. Nothing else is written outside the current directory, ~/.ssh/known_hosts (by trust)
and the folders that are named on the command line.
.SH FILES
.TP
.I .paddlectl/current
In the current directory: the cluster that commands use without \-\-cluster.
.TP
.I ~/.ssh/config, ~/.ssh/known_hosts
Read as ssh(1) does.
.SH SEE ALSO
.BR ssh (1)
)";

// A backslash, a minus, and a dot or quote at a line's start mean something to troff.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool starts = out.empty() || out.back() == '\n';
    if (starts && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

// Lines as they stand.
std::string example(std::string_view text) {
  return fmt::format(".nf\n{}\n.fi\n", escaped(text));
}

void add_options(std::string& page, const CommandWords& command) {
  for (const OptionWords& option : command.options) {
    std::string head;
    for (const std::string& name : option.names)
      head += fmt::format("{}\\fB{}\\fR", head.empty() ? "" : ", ", escaped(name));
    if (option.names.empty()) head = fmt::format("\\fI{}\\fR", escaped(option.place));
    if (!option.names.empty() && !option.value.empty())
      head += fmt::format(" \\fI{}\\fR", escaped(option.value));
    page += fmt::format(".TP\n{}\n{}\n", head, escaped(option.description));
  }
}

}  // namespace

std::string man_page(std::span<const CommandWords> words) {
  const CommandWords& app = words.front();
  const std::size_t line_end = app.summary.find('\n');
  std::string page = fmt::format(
      ".TH PADDLECTL 1 \"\" \"paddlectl {}\" \"User Commands\"\n"
      ".SH NAME\npaddlectl \\- run training jobs on servers reached over SSH\n"
      ".SH SYNOPSIS\n.B paddlectl\n.RI [ options ] \" command \" [ arguments ]\n"
      ".SH DESCRIPTION\n{}\n{}",
      kProgramVersion, escaped(app.summary.substr(0, line_end)),
      line_end == std::string::npos ? "" : example(app.summary.substr(line_end + 2)));
  page += ".SH OPTIONS\n";
  add_options(page, app);
  page += ".SH COMMANDS\n";
  for (const CommandWords& command : words.subspan(1)) {
    page += fmt::format(".SS {}\n{}\n", escaped(command.name), escaped(command.summary));
    add_options(page, command);
    page += ".PP\n" + example(command.footer);
  }
  page += ".SH EXIT STATUS\n" + escaped(app.footer) + "\n";
  return page + std::string(kEnvironment);
}

}  // namespace paddle::cli
