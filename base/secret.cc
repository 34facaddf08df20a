#include "base/secret.h"

#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/fd.h"

namespace paddle {

Result<Secret> Secret::generate() {
  Secret secret;
  if (::getrandom(secret.bytes_.data(), kSecretBytes, 0) != static_cast<ssize_t>(kSecretBytes)) {
    return system_error(Errc::kResource, "getrandom");
  }
  return secret;
}

Result<Secret> Secret::from_bytes(ByteSpan bytes) {
  if (bytes.size() != kSecretBytes) return Error{Errc::kAuth, "a job secret has 32 bytes", ""};
  Secret secret;
  std::copy(bytes.begin(), bytes.end(), secret.bytes_.begin());
  return secret;
}

Result<Secret> Secret::read(const std::string& key_file) {
  const UniqueFd fd(::open(key_file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return system_error(Errc::kAuth, "open key file " + key_file);
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return system_error(Errc::kAuth, "stat key file " + key_file);
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return Error{Errc::kAuth, "key file " + key_file + " must belong to you and have mode 0600",
                 "chmod 600 " + key_file};
  }
  Secret secret;
  if (info.st_size != static_cast<off_t>(kSecretBytes) ||
      !read_exact(fd.get(), secret.bytes_, TimePoint::max())) {
    return Error{Errc::kAuth,
                 fmt::format("key file {} does not hold {} bytes", key_file, kSecretBytes), ""};
  }
  return secret;
}

Secret::~Secret() {
  ::explicit_bzero(bytes_.data(), bytes_.size());
}

bool equal_constant_time(ByteSpan a, ByteSpan b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace paddle
