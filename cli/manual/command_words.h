// The command line's words as plain text: input of the completion scripts and the man page.
#pragma once

#include <string>
#include <vector>

#include "cli/options/command.h"

namespace paddle::cli {

enum class Completes { kNothing, kFile, kFolder, kChoice };

struct OptionWords {
  std::vector<std::string> names;  // "-f", "--follow"; none: an argument by its place
  std::string place;               // the name of the argument
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

// The program itself first, then the commands in their order.
std::vector<CommandWords> words_of(const std::vector<Command>& commands);

}  // namespace paddle::cli
