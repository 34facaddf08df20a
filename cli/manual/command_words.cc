#include "cli/manual/command_words.h"

#include <CLI/CLI.hpp>

namespace paddle::cli {
namespace {

// CLI11 shows a set of values as "TEXT:{json,prometheus}".
std::vector<std::string> choices_in(const std::string& value) {
  const std::size_t begin = value.find('{');
  const std::size_t end = value.find('}');
  if (begin == std::string::npos || end == std::string::npos) return {};
  return CLI::detail::split(value.substr(begin + 1, end - begin - 1), ',');
}

OptionWords words_of(const CLI::Option& option) {
  OptionWords words;
  for (const std::string& name : option.get_snames()) words.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) words.names.push_back("--" + name);
  if (words.names.empty()) words.place = option.get_name(true);
  words.description = option.get_description();
  if (option.get_items_expected_max() == 0) return words;
  words.value = option.get_type_name();
  words.choices = choices_in(words.value);
  if (!words.choices.empty()) {
    words.completes = Completes::kChoice;
    words.value.erase(0, words.value.find('{'));
  } else if (words.value == "FILE") {
    words.completes = Completes::kFile;
  } else if (words.value == "DIR") {
    words.completes = Completes::kFolder;
  }
  return words;
}

CommandWords words_of_one(const CLI::App& app) {
  CommandWords words{app.get_name(), app.get_description(), app.get_footer(), {}};
  for (const CLI::Option* option : app.get_options()) words.options.push_back(words_of(*option));
  return words;
}

}  // namespace

std::vector<CommandWords> words_of(const CLI::App& app) {
  std::vector<CommandWords> all{words_of_one(app)};
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    all.push_back(words_of_one(*command));
  return all;
}

}  // namespace paddle::cli
