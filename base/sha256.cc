// The EVP interface would link every provider of libcrypto into the agent (several MB); these three
// functions are deprecated but correct, and use the same SHA-NI code.
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/sha256.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include <openssl/sha.h>

#include "base/fd.h"

namespace paddle {
namespace {

constexpr std::size_t kReadBytes = 256U << 10U;

}  // namespace

struct Sha256::State {
  SHA256_CTX context;
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  ::SHA256_Init(&state_->context);
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(ByteSpan data) {
  ::SHA256_Update(&state_->context, data.data(), data.size());
}

Sha256Digest Sha256::finish() {
  Sha256Digest digest;
  ::SHA256_Final(reinterpret_cast<unsigned char*>(digest.data()), &state_->context);
  return digest;
}

Sha256Digest sha256_of(ByteSpan data) {
  Sha256 sha;
  sha.update(data);
  return sha.finish();
}

Result<Sha256Digest> sha256_of_fd(int fd, std::uint64_t bytes_max) {
  Sha256 sha;
  Bytes buffer(kReadBytes);
  for (std::uint64_t left = bytes_max; left > 0;) {
    const ssize_t got = ::read(fd, buffer.data(), std::min<std::uint64_t>(left, buffer.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(Errc::kData, "read");
    if (got == 0) break;
    left -= static_cast<std::uint64_t>(got);
    sha.update(ByteSpan(buffer).first(static_cast<std::size_t>(got)));
  }
  return sha.finish();
}

Result<Sha256Digest> sha256_of_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return system_error(Errc::kData, "open " + path);
  return sha256_of_fd(fd.get()).with(path);
}

}  // namespace paddle
