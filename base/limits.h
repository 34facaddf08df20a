// The limits of this process (ulimit, cgroups): raised where that is allowed, and named when they
// end the program, which would else be a signal or an abort without a word.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle {

// To be called first in main(). `program` begins what is said. From then on
// - a file that may not grow further (ulimit -f) is an error of the write, EFBIG, and no signal;
// - the soft limit of open descriptors is the hard one, or more where this process may raise that;
// - the stacks of the program and of its threads are large enough, or this is the error;
// - a thread or memory that the system refuses ends the program with kResource, and is named.
Status prepare_limits(const char* program);

// Whether so many more descriptors can be open at once. `what` needs them: "20 connections of
// trainers".
Status need_descriptors(std::size_t count, const std::string& what);

// The next step after a lack that a message names in the words of strerror() or of a node's shell;
// "": it names none.
std::string_view hint_for_lack(std::string_view message);

}  // namespace paddle
