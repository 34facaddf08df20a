// Notices of a supervised process about itself (proto/supervision.proto): read from its pipe, the
// latest kept as the record `notice`.
#pragma once

#include <string>

#include "base/fd.h"
#include "remote/agent/root/root.h"

namespace paddle::agent {

class Notices {
 public:
  // `pipe` is non-blocking, or empty for a process that sends none.
  void open(UniqueFd pipe);
  int fd() const { return pipe_ ? pipe_.get() : -1; }
  // Reads what there is, up to a bound. A malformed notice closes the pipe: the process goes on
  // without it.
  void take(const Root& root, const SafePath& folder);

 private:
  UniqueFd pipe_;
  std::string pending_;
};

}  // namespace paddle::agent
