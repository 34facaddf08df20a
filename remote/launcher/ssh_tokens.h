// Home folders, and the %-tokens and variables that ssh_config(5) allows in a value.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle::remote {

// From the password database, which ssh uses too; $HOME is ignored.
std::string home_directory();
std::string local_user();
// Expands "~/x" and "~user/x"; returns every other path unchanged.
std::string expand_home(const std::string& path);

using Tokens = std::map<char, std::string>;  // 'h': the value of %h; %% needs no entry
// kUsage names a token that is not in the table.
Result<std::string> expand_tokens(std::string_view text, const Tokens& tokens);
// Expands "${NAME}" from the environment; kUsage for a variable that is not set, as in ssh.
Result<std::string> expand_variables(std::string_view text);

}  // namespace paddle::remote
