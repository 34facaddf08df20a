// The command line's own words, read from the CLI11 app: what completions and the man page are made
// of.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace paddle::cli {

enum class Completes { kNothing, kFile, kFolder, kChoice };

struct OptionWords {
  std::vector<std::string> names;  // "-f", "--follow"; none: an argument by its place
  std::string place;               // that argument's name
  std::string value;               // "FILE", "UINT", "{json,prometheus}"; "": a flag
  std::string description;
  Completes completes = Completes::kNothing;
  std::vector<std::string> choices;  // of kChoice
};

struct CommandWords {
  std::string name;
  std::string summary;
  std::string footer;
  std::vector<OptionWords> options;
};

// The app itself first, then its commands in their order.
std::vector<CommandWords> words_of(const CLI::App& app);

}  // namespace paddle::cli
