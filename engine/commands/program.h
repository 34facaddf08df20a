// The program `paddle`: finds the command that its arguments name, parses its flags and runs it.
#pragma once

#include <string>
#include <vector>

namespace paddle::commands {

// Returns the exit code; an error and its hint are on stderr. `environment` is as in environ(7).
int run_program(const std::vector<std::string>& arguments, const char* const* environment);

}  // namespace paddle::commands
