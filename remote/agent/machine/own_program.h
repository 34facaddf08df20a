// Integrity check of the running agent program: hashed once per boot of the node.
#pragma once

#include <string>

namespace paddle::agent {

// hash: the SHA-256 that paddlectl expects, in hexadecimal. A match is recorded beside the program,
// in <program>.verified, with the id of this boot.
bool own_program_is(const std::string& hash);

}  // namespace paddle::agent
