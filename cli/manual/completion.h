// Shell scripts that complete paddlectl's commands, options and their values. Each is complete in
// itself: no program runs while a user types.
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
