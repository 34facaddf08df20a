#include "engine/commands/inherited.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace paddle::commands {

UniqueFd take_inherited(const char* variable, mode_t kind) {
  const char* const text = std::getenv(variable);
  if (text == nullptr) return {};
  int fd = -1;
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), fd);
  struct stat status {};
  const bool is_right = error == std::errc() && *end == '\0' && fd > STDERR_FILENO &&
                        ::fstat(fd, &status) == 0 && (status.st_mode & S_IFMT) == kind;
  ::unsetenv(variable);
  if (!is_right) return {};
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return UniqueFd(fd);
}

bool take_mark(const char* variable) {
  const bool is_there = std::getenv(variable) != nullptr;
  ::unsetenv(variable);
  return is_there;
}

}  // namespace paddle::commands
