// A job's 32-byte secret. It cannot be formatted or compared by accident, and is wiped at its end.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

constexpr std::size_t kSecretBytes = 32;

class Secret {
 public:
  static Result<Secret> generate();                  // getrandom
  static Result<Secret> from_bytes(ByteSpan bytes);  // exactly kSecretBytes

  Secret(const Secret&) = default;
  Secret& operator=(const Secret&) = default;
  ~Secret();

  // For deriving keys and for delivery over an authenticated channel only.
  ByteSpan reveal() const { return bytes_; }

 private:
  Secret() = default;
  std::array<std::byte, kSecretBytes> bytes_{};
};

// The content of a key file: a regular file of this user that no other may read or write. kAuth.
// The caller wipes it.
Result<Bytes> read_secret_file(const std::string& path, std::size_t bytes_max);

// For programs that hold secrets. Unlike PR_SET_DUMPABLE, it leaves /proc/PID to their own user.
void turn_off_cores();
// Gives a forked child, before its exec, the limit from before turn_off_cores().
void restore_cores();

// Compares in time that depends on the length alone.
bool equal_constant_time(ByteSpan a, ByteSpan b);

}  // namespace paddle
