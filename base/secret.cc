#include "base/secret.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "base/fd.h"

namespace paddle {
namespace {

std::optional<rlimit> g_limit_before;

}  // namespace

Result<Secret> Secret::generate() {
  Secret secret;
  PADDLE_TRY_STATUS(fill_random(secret.bytes_));
  return secret;
}

Result<Secret> Secret::from_bytes(ByteSpan bytes) {
  if (bytes.size() != kSecretBytes) return Error{Errc::kAuth, "a secret has 32 bytes", ""};
  Secret secret;
  std::copy(bytes.begin(), bytes.end(), secret.bytes_.begin());
  return secret;
}

Secret::~Secret() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

Result<Bytes> read_secret_file(const std::string& path, std::size_t bytes_max) {
  // Without O_NONBLOCK, open() would block on a pipe that has no writer.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) return system_error(Errc::kAuth, "open secret file " + path);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kAuth, "stat secret file " + path);
  if (!S_ISREG(info.st_mode) || info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Error{Errc::kAuth,
                 "secret file " + path + " must be a file that belongs to you and has mode 0600",
                 "chmod 600 " + path};
  }
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max)
    return Error{Errc::kAuth,
                 fmt::format("secret file {} is longer than {} bytes", path, bytes_max)};
  Bytes content(static_cast<std::size_t>(info.st_size));
  if (!read_exact(fd.get(), content, TimePoint::max()))
    return Error{Errc::kAuth, "secret file " + path + " got shorter while it was read"};
  return content;
}

void turn_off_cores() {
  rlimit limit{};
  if (g_limit_before || ::getrlimit(RLIMIT_CORE, &limit) != 0) return;
  g_limit_before = limit;
  // If core_pattern is a pipe to a program, the kernel dumps even with a limit of 0. A limit of 1
  // byte turns off core files and dumps to a pipe.
  limit.rlim_cur = std::min<rlim_t>(1, limit.rlim_max);
  ::setrlimit(RLIMIT_CORE, &limit);
}

void restore_cores() {
  if (g_limit_before) ::setrlimit(RLIMIT_CORE, &*g_limit_before);
}

Status fill_random(std::span<std::byte> bytes) {
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return system_error(Errc::kResource, "getrandom");
  return {};
}

bool equal_constant_time(ByteSpan a, ByteSpan b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace paddle
