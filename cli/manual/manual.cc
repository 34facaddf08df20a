#include "cli/manual/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/version.h"
#include "cli/options/command.h"

namespace paddle::cli {
namespace {

std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> all;
  for (;;) {
    const std::size_t comma = names.find(',');
    all.emplace_back(names.substr(0, comma));
    if (comma == names.npos) return all;
    names.remove_prefix(comma + 1);
  }
}

// As --help shows it.
std::string value_of(const Option& option) {
  if (option.is_flag()) return "";
  if (!option.choices.empty()) return fmt::format("{{{}}}", fmt::join(option.choices, ","));
  return std::string(value_name_of(option));
}

// The kind of values that `paddlectl __complete` lists for a value of that name; "" for none.
std::string_view kind_of(std::string_view value) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"JOB", "jobs"},           {"NODES", "nodes"},    {"ROLE", "roles"},
      {"TEMPLATE", "templates"}, {"KEY=VALUE", "keys"}, {"COMMAND", "commands"}};
  for (const auto& [name, kind] : kKinds) {
    if (name == value) return kind;
  }
  return "";
}

OptionWords words_of(const Option& option) {
  OptionWords words;
  if (option.is_positional()) {
    words.place = option.name;
  } else {
    words.names = split_names(option.name);
  }
  words.description = option.help;
  words.value = value_of(option);
  words.choices = option.choices;
  words.kind = kind_of(words.value);
  words.completes = !option.choices.empty() ? Completes::kChoice
                    : words.value == "FILE" ? Completes::kFile
                    : words.value == "DIR"  ? Completes::kFolder
                    : words.kind.empty()    ? Completes::kNothing
                                            : Completes::kDynamic;
  return words;
}

CommandWords words_of(std::string_view name, std::string_view summary, std::string footer,
                      const OptionList& options) {
  CommandWords words{std::string(name), std::string(summary), std::move(footer), {}};
  words.options.emplace_back().names = {"-h", "--help"};
  words.options.back().description = "Print this help message and exit";
  for (const Option& option : options) words.options.push_back(words_of(option));
  return words;
}

constexpr std::string_view kExamples =
    "# A first model, on this machine\n"
    "paddlectl init --local && paddlectl up cluster.toml\n"
    "paddlectl init --template quick_start texts && texts/prepare\n"
    "paddlectl train texts\n"
    "\n"
    "# Your servers\n"
    "paddlectl init --hosts n1,n2,n3 lab.toml\n"
    "paddlectl up lab.toml && paddlectl check\n"
    "paddlectl train --trainers 4 --pservers 2 texts\n"
    "\n"
    "# Look at it from another terminal, stop it, go on\n"
    "paddlectl status --watch\n"
    "paddlectl logs -f --role trainer-0\n"
    "paddlectl stop && paddlectl train --resume texts\n"
    "\n"
    "# A server is down\n"
    "paddlectl up --any lab.toml\n"
    "paddlectl train --on node02,node03 texts\n"
    "\n"
    "# A command on every node, and nothing left behind\n"
    "paddlectl exec -- uptime\n"
    "paddlectl teardown";

constexpr std::string_view kEnvironment = R"(.SH ENVIRONMENT
.TP
.B NO_COLOR
When set to anything, nothing is coloured.
.TP
.B TERM
When it is dumb, nothing is coloured and no line is rewritten in place.
.TP
.B PADDLECTL_CLUSTER
The cluster file of commands without \-\-cluster, where no current cluster is found upward.
.TP
.B XDG_CACHE_HOME
Where hashes of pushed files are kept, in paddlectl/hashes; ~/.cache without it, or when it is no
absolute path. Nothing else is written outside the current directory, ~/.ssh/known_hosts (by trust)
and the folders that are named on the command line.
.SH FILES
.TP
.I cluster.toml
The servers and how to reach them, written by init; any name will do.
.TP
.I job.toml, .paddleignore
In a workspace: what is trained, and which of its files stay here.
.TP
.I output/<job>/
Logs, snapshots and report.html of a job.
.TP
.I .paddlectl/current
In the current directory or a parent of it, up to the home directory or the end of the file system:
the cluster that commands use without \-\-cluster. A parent's counts if you or root own the file.
.TP
.I ~/.config/paddlectl/current
Your default cluster, set by up \-\-default; below XDG_CONFIG_HOME where that is set.
.TP
.I ~/.ssh/config, ~/.ssh/known_hosts
They mean what they mean to ssh(1): ssh \-G reads the first.
.SH SEE ALSO
.BR ssh (1),
.BR ssh_config (5)
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

std::vector<CommandWords> words_of(const std::vector<Command>& commands) {
  GlobalOptions global;
  std::vector<CommandWords> all{words_of("paddlectl", kAbout, kExitCodes, global_options(global))};
  for (const Command& command : commands) {
    all.push_back(
        words_of(command.name, command.summary, footer_of(command), command.invoke().options));
  }
  return all;
}

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
  page += ".SH EXAMPLES\n" + example(kExamples) + ".SH OPTIONS\n";
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
