// The limits of this process (ulimit, cgroups): raised where that is allowed. If a limit ends the
// program, a message names it; by default that would be a signal or an abort without any message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.h"

namespace paddle {

// Must be the first call in main(). `program` is the prefix of messages. Afterwards
// - a write beyond the file size limit (ulimit -f) fails with EFBIG and raises no signal;
// - the soft limit of open descriptors is the hard one, which is raised too where this process may
//   do so;
// - the stacks of the program and of its threads are large enough; if not, kResource is returned;
// - if the system refuses a thread or memory, the program exits with kResource and a message that
//   names the cause.
Status prepare_limits(const char* program);

// kResource unless `count` more descriptors can be open at once. `what` names their use in the
// message: "20 connections of trainers".
Status need_descriptors(std::size_t count, const std::string& what);

// The hint for a lack of resources that `message` contains in the words of strerror() or of a
// node's shell; "" if it contains none.
std::string_view hint_for_lack(std::string_view message);

}  // namespace paddle
