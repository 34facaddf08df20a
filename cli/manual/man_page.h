// The manual page paddlectl(1).
#pragma once

#include <span>
#include <string>

#include "cli/manual/command_words.h"

namespace paddle::cli {

// words: as words_of gives them, the app first. In man(7)'s macros.
std::string man_page(std::span<const CommandWords> words);

}  // namespace paddle::cli
