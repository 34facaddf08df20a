// Whether the program that runs is whole: hashed once, then believed until the node's next boot.
#pragma once

#include <string>

namespace paddle::agent {

// hash: the SHA-256 that paddlectl expects, in hexadecimal. That it matched is noted beside the
// program, in <program>.verified, with the id of this boot.
bool own_program_is(const std::string& hash);

}  // namespace paddle::agent
