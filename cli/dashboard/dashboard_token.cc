#include "cli/dashboard/dashboard_token.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include <fmt/format.h>

#include "base/fd.h"
#include "base/secret.h"
#include "cli/console/base64.h"

namespace paddle::cli {
namespace {

constexpr std::size_t kTokenBytesMin = 32, kTokenBytesMax = 256;

// Two dashboards that start at the same time agree: link() fails for the second one.
Status write_new(const std::string& file) {
  PADDLE_TRY(const std::string token, new_token());
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  std::error_code error;
  std::filesystem::create_directories(folder.parent_path(), error);
  ::mkdir(folder.c_str(), 0700);  // as the journal does
  const std::string made = fmt::format("{}.{}", file, ::getpid());
  PADDLE_TRY_STATUS(replace_file(made, as_bytes(token + "\n"), 0600));
  const bool is_linked = ::link(made.c_str(), file.c_str()) == 0 || errno == EEXIST;
  const Status linked = is_linked ? Status() : system_error(Errc::kResource, "write " + file);
  ::unlink(made.c_str());
  return linked;
}

}  // namespace

Result<std::string> new_token() {
  std::array<std::byte, 32> random{};
  PADDLE_TRY_STATUS(fill_random(random));
  std::string token = base64(random);
  std::erase(token, '=');
  std::ranges::replace(token, '+', '-');
  std::ranges::replace(token, '/', '_');
  return token;
}

Result<std::string> token_of(const std::string& file) {
  struct stat info {};
  const bool exists = ::lstat(file.c_str(), &info) == 0;
  if (!exists) {
    const Status written =
        errno == ENOENT ? write_new(file) : system_error(Errc::kResource, "read " + file);
    if (!written) {
      Error error = written.error();
      error.hint = "name a file elsewhere with --token-file";
      return error;
    }
  }
  if (exists && !S_ISREG(info.st_mode))
    return Error{Errc::kAuth, file + " is no regular file", "name another file with --token-file"};
  std::string token;
  if (info.st_size <= static_cast<off_t>(kTokenBytesMax) + 1) {
    PADDLE_TRY(const Bytes content, read_secret_file(file, kTokenBytesMax + 1));
    token = as_text(content);
  }
  if (token.ends_with('\n')) token.pop_back();
  const bool is_token = token.size() >= kTokenBytesMin && token.size() <= kTokenBytesMax &&
                        std::ranges::all_of(token, [](char c) {
                          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                                 (c >= '0' && c <= '9') || c == '-' || c == '_';
                        });
  if (is_token) return token;
  return Error{Errc::kUsage,
               fmt::format("{} contains no token of {} to {} letters, digits, '-' and '_'", file,
                           kTokenBytesMin, kTokenBytesMax),
               "remove it: the next dashboard writes a new one"};
}

}  // namespace paddle::cli
