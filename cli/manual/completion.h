// Shell scripts that complete paddlectl's commands, options and values. They start no program.
#pragma once

#include <span>
#include <string>

#include "cli/manual/command_words.h"

namespace paddle::cli {

// words: as words_of gives them, the app first.
std::string bash_completion(std::span<const CommandWords> words);
std::string zsh_completion(std::span<const CommandWords> words);  // a #compdef file, or sourced
std::string fish_completion(std::span<const CommandWords> words);

}  // namespace paddle::cli
