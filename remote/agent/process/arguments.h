// The command line of a process: what stands for something in it, and which program it names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace paddle::agent {

// Every `mark` in the text becomes `value`.
void fill_in(std::string& text, std::string_view mark, const std::string& value);

// The program that a user's command names: as it is where it has a '/', else the first of the PATH
// among these variables. One that is nowhere gets a path that execve(2) refuses.
std::string find_program(const std::string& name, const std::vector<std::string>& variables);

}  // namespace paddle::agent
