#include "cli/manual/command_words.h"

#include <fmt/format.h>

#include "cli/options/program.h"

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
  if (!option.value_name.empty()) return std::string(option.value_name);
  if (std::holds_alternative<std::uint32_t*>(option.target)) return "UINT";
  return std::holds_alternative<std::int64_t*>(option.target) ? "INT" : "TEXT";
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
  words.completes = !option.choices.empty() ? Completes::kChoice
                    : words.value == "FILE" ? Completes::kFile
                    : words.value == "DIR"  ? Completes::kFolder
                                            : Completes::kNothing;
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

}  // namespace paddle::cli
