// This process's soft limit of core files, raised to the hard one until the end of the scope.
#pragma once

#include <sys/resource.h>

namespace paddle::test {

class RaisedCoreLimit {
 public:
  RaisedCoreLimit() {
    ::getrlimit(RLIMIT_CORE, &before_);
    rlimit raised = before_;
    raised.rlim_cur = before_.rlim_max;
    ::setrlimit(RLIMIT_CORE, &raised);
  }
  RaisedCoreLimit(const RaisedCoreLimit&) = delete;
  RaisedCoreLimit& operator=(const RaisedCoreLimit&) = delete;
  ~RaisedCoreLimit() { ::setrlimit(RLIMIT_CORE, &before_); }

 private:
  rlimit before_{};
};

}  // namespace paddle::test
