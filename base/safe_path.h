// Paths from other machines, files and users, confined to a root directory.
#pragma once

#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace paddle {

// A relative path without NUL, "..", ".", empty components or a leading '/'. It has at most 4096
// bytes, and each component at most 255.
class SafePath {
 public:
  static Result<SafePath> parse(std::string_view text);

  const std::string& str() const { return text_; }

  // These functions resolve the path below root and follow no symbolic link (openat2
  // RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS).
  Result<UniqueFd> open_read(int root_fd) const;  // a regular file
  Result<UniqueFd> open_directory(int root_fd) const;
  Status make_directories(int root_fd) const;  // makes what is missing, with mode 0700

 private:
  explicit SafePath(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace paddle
