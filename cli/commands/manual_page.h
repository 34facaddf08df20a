// The command line as plain text: its words, and the completion scripts and the manual page that
// are made from them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cli/commands/command.h"

namespace paddle::cli {

// kDynamic: the program itself lists the values, with `paddlectl __complete`.
enum class Completes { kNothing, kFile, kFolder, kChoice, kDynamic };

struct OptionWords {
  std::vector<std::string> names;  // "-f", "--follow"; none: an argument
  std::string place;               // the name of the argument
  std::string value;               // "FILE", "UINT", "{json,prometheus}"; "": a flag
  std::string description;
  Completes completes = Completes::kNothing;
  std::vector<std::string> choices;  // for kChoice
  std::string kind;                  // for kDynamic: "jobs", "nodes", ...
};

struct CommandWords {
  std::string name;
  std::string summary;
  std::string footer;
  std::vector<OptionWords> options;
};

// The program first, then the commands in their order.
std::vector<CommandWords> words_of(const std::vector<Command>& commands);

// words: the result of words_of(). The scripts start no program but paddlectl.
std::string bash_completion(std::span<const CommandWords> words);
std::string zsh_completion(std::span<const CommandWords> words);  // a #compdef file, or sourced
std::string fish_completion(std::span<const CommandWords> words);

// The page paddlectl(1), in man(7)'s macros.
std::string man_page(std::span<const CommandWords> words);

}  // namespace paddle::cli
