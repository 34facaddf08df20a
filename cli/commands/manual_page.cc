#include "cli/commands/manual_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/version.h"
#include "cli/commands/command.h"

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

// The name of the option's value, as --help shows it.
std::string value_of(const Option& option) {
  if (option.is_flag()) return "";
  if (!option.choices.empty()) return fmt::format("{{{}}}", fmt::join(option.choices, ","));
  return std::string(value_name_of(option));
}

// The kind of values that `paddlectl __complete` lists for a value with this name; "" if none.
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
  words.completes = !option.choices.empty()          ? Completes::kChoice
                    : words.value == "FILE"          ? Completes::kFile
                    : words.value.starts_with("DIR") ? Completes::kFolder
                    : words.kind.empty()             ? Completes::kNothing
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
    "# Watch it from another terminal, stop it, continue it\n"
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
The servers and how to reach them, written by init; any name is valid.
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
They have the same meaning as for ssh(1): ssh \-G reads the first.
.SH SEE ALSO
.BR ssh (1),
.BR ssh_config (5)
)";

// Escapes what has a meaning in troff: a backslash, a minus, and a dot or quote at the start of a
// line.
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

// Formats lines that troff prints unchanged.
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

// The completion scripts.

std::string replace_all(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string names_of(const CommandWords& command) {
  std::string names;
  for (const OptionWords& option : command.options) {
    for (const std::string& name : option.names) names += (names.empty() ? "" : " ") + name;
  }
  return names;
}

// ---- bash ----

constexpr std::string_view kBashHead =
    R"~(# bash completion of paddlectl, made by: paddlectl completion bash
_paddlectl_values() {
  local values
  values=$("${COMP_WORDS[0]}" __complete "$1" "$word" "${COMP_WORDS[@]}" 2>/dev/null)
  COMPREPLY=($(compgen -W "$values" -- "$word"))
  [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2>/dev/null
}
_paddlectl() {
  local word=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} command='' options='' i
  # bash takes --format=json for three words.
  if [ "$word" = = ]; then
    word=''
  elif [ "$previous" = = ] && [ "$COMP_CWORD" -gt 2 ]; then
    previous=${COMP_WORDS[COMP_CWORD-2]}
  fi
  COMPREPLY=()
)~";

// Files are left to readline, which handles folders, blanks and quotes.
std::string bash_reply(const OptionWords& option) {
  switch (option.completes) {
    case Completes::kFile:
      return "compopt -o default 2>/dev/null";
    case Completes::kFolder:
      return "compopt -o dirnames 2>/dev/null";
    case Completes::kChoice:
      return fmt::format("COMPREPLY=($(compgen -W '{}' -- \"$word\"))",
                         fmt::join(option.choices, " "));
    case Completes::kDynamic:
      return "_paddlectl_values " + option.kind;
    case Completes::kNothing:
      break;
  }
  return ":";
}

void add_bash_values(std::string& script, const CommandWords& command, std::string_view prefix) {
  for (const OptionWords& option : command.options) {
    if (option.names.empty() || option.value.empty()) continue;
    std::vector<std::string> patterns;
    for (const std::string& name : option.names)
      patterns.push_back(fmt::format("{}:{}", prefix, name));
    script += fmt::format("    {}) {}; return ;;\n", fmt::join(patterns, "|"), bash_reply(option));
  }
}

// ---- zsh ----

// Escapes brackets, colons and quotes, which have a meaning in "NAME[TEXT]:VALUE:ACTION".
std::string zsh_text(const std::string& text) {
  std::string out = replace_all(text, "\\", "\\\\");
  for (const char* const mark : {"[", "]", ":"})
    out = replace_all(out, mark, fmt::format("\\{}", mark));
  return replace_all(out, "'", "'\\''");
}

std::string zsh_action(const OptionWords& option) {
  switch (option.completes) {
    case Completes::kFile:
      return "_files";
    case Completes::kFolder:
      return "_files -/";
    case Completes::kChoice:
      return fmt::format("({})", fmt::join(option.choices, " "));
    case Completes::kDynamic:
      return "_paddlectl_values " + option.kind;
    case Completes::kNothing:
      break;
  }
  return " ";
}

std::string zsh_arguments(const CommandWords& command) {
  std::string out;
  for (const OptionWords& option : command.options) {
    if (option.names.empty()) {
      out += fmt::format(" \\\n        '*:{}:{}'", zsh_text(option.place), zsh_action(option));
      continue;
    }
    for (const std::string& name : option.names) {
      out += fmt::format(" \\\n        '*{}[{}]{}'", name, zsh_text(option.description),
                         option.value.empty() ? "" : ":value:" + zsh_action(option));
    }
  }
  return out;
}

// ---- fish ----

std::string fish_text(const std::string& text) {
  return "'" + replace_all(replace_all(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string fish_values(const OptionWords& option) {
  switch (option.completes) {
    case Completes::kFile:
      return " -r -F";
    case Completes::kFolder:
      return " -x -a '(__fish_complete_directories)'";
    case Completes::kChoice:
      return fmt::format(" -x -a '{}'", fmt::join(option.choices, " "));
    case Completes::kDynamic:
      return fmt::format(" -x -a '(__paddlectl_values {})'", option.kind);
    case Completes::kNothing:
      break;
  }
  return " -x";
}

std::string fish_line(const OptionWords& option, const std::string& condition) {
  std::string line = "complete -c paddlectl";
  if (!condition.empty()) line += " -n " + fish_text(condition);
  if (option.names.empty()) {
    if (option.completes == Completes::kNothing) return "";
    const std::string values = fish_values(option);
    return line + (option.completes == Completes::kFile ? " -F" : values) + "\n";
  }
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  }
  if (!option.value.empty()) line += fish_values(option);
  return line + " -d " + fish_text(option.description) + "\n";
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

std::string bash_completion(std::span<const CommandWords> words) {
  std::vector<std::string> names;
  for (const CommandWords& command : words.subspan(1)) names.push_back(command.name);
  std::string script(kBashHead);
  script += fmt::format(
      "  for ((i = 1; i < COMP_CWORD; ++i)); do\n"
      "    case ${{COMP_WORDS[i]}} in\n"
      "      --) compopt -o default 2>/dev/null; return ;;\n"
      "      {}) [ -n \"$command\" ] || command=${{COMP_WORDS[i]}} ;;\n"
      "    esac\n"
      "  done\n"
      "  case $command:$previous in\n",
      fmt::join(names, "|"));
  for (const CommandWords& command : words.subspan(1))
    add_bash_values(script, command, command.name);
  add_bash_values(script, words.front(), "*");
  script += "  esac\n  case $command in\n";
  for (const CommandWords& command : words.subspan(1)) {
    script += fmt::format("    {})\n      options='{}'\n", command.name, names_of(command));
    for (const OptionWords& option : command.options) {
      if (option.names.empty())
        script += fmt::format("      [[ $word == -* ]] || {}\n", bash_reply(option));
    }
    script += "      ;;\n";
  }
  script += fmt::format(
      "    *) [[ $word == -* ]] || COMPREPLY=($(compgen -W '{}' -- \"$word\")) ;;\n"
      "  esac\n"
      "  [[ $word == -* ]] && COMPREPLY=($(compgen -W \"$options {}\" -- \"$word\"))\n"
      "}}\n"
      "complete -F _paddlectl paddlectl\n",
      fmt::join(names, " "), names_of(words.front()));
  return script;
}

std::string zsh_completion(std::span<const CommandWords> words) {
  std::string script =
      "#compdef paddlectl\n# zsh completion of paddlectl, made by: paddlectl completion zsh\n"
      "_paddlectl_values() {\n  local -a values\n"
      "  values=(${(f)\"$($program __complete $1 \"$PREFIX\" $all 2>/dev/null)\"})\n"
      "  if [[ $1 == keys ]]; then compadd -S '' -a values; else compadd -a values; fi\n}\n"
      "_paddlectl() {\n  local context state line program=$words[1]\n  local -a all=($words)\n  "
      "typeset -A opt_args\n  local -a commands\n"
      "  commands=(\n";
  for (const CommandWords& command : words.subspan(1))
    script += fmt::format("    '{}:{}'\n", command.name, zsh_text(command.summary));
  script += fmt::format(
      "  )\n  _arguments -C{} \\\n        '1:command:->command' '*::argument:->argument'\n"
      "  case $state in\n    command) _describe command commands ;;\n"
      "    argument) case $words[1] in\n",
      zsh_arguments(words.front()));
  for (const CommandWords& command : words.subspan(1)) {
    script += fmt::format("      {}) _arguments{} ;;\n", command.name, zsh_arguments(command));
  }
  script +=
      "    esac ;;\n  esac\n}\n"
      "# Found in fpath it is called; sourced it registers itself.\n"
      "if [ \"$funcstack[1]\" = _paddlectl ]; then _paddlectl \"$@\"; "
      "else compdef _paddlectl paddlectl; fi\n";
  return script;
}

std::string fish_completion(std::span<const CommandWords> words) {
  std::string script =
      "# fish completion of paddlectl, made by: paddlectl completion fish\n"
      "function __paddlectl_values\n  set -l words (commandline -opc)\n"
      "  $words[1] __complete $argv[1] (commandline -ct) $words 2>/dev/null\nend\n"
      "complete -c paddlectl -f\n";
  for (const OptionWords& option : words.front().options) script += fish_line(option, "");
  for (const CommandWords& command : words.subspan(1)) {
    script += fmt::format("complete -c paddlectl -n __fish_use_subcommand -a {} -d {}\n",
                          command.name, fish_text(command.summary));
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const OptionWords& option : command.options) script += fish_line(option, condition);
  }
  return script;
}

}  // namespace paddle::cli
