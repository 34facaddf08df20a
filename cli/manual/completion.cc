#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/manual/manual.h"

namespace paddle::cli {
namespace {

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

// Files are left to readline, which knows of folders, blanks and quotes.
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

// In "NAME[TEXT]:VALUE:ACTION" brackets and colons have a meaning, and the whole is in quotes.
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
