// A job's 32-byte secret. It cannot be formatted or compared by accident, and its destructor wipes
// it.
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
  static Result<Secret> generate();                  // fill_random()
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

// Reads a secret file of at most bytes_max bytes. kAuth: it is too long, or not a regular file that
// belongs to this user and that no other user may read or write. The caller wipes the content.
Result<Bytes> read_secret_file(const std::string& path, std::size_t bytes_max);

// Turns off core dumps of a program that holds secrets. Unlike PR_SET_DUMPABLE, it leaves /proc/PID
// readable for the program's own user.
void turn_off_cores();
// Restores the limit from before turn_off_cores(), in a forked child before its exec.
void restore_cores();

// Fills up to 256 bytes from the kernel's random source.
Status fill_random(std::span<std::byte> bytes);

// Compares in time that depends on the length alone.
bool equal_constant_time(ByteSpan a, ByteSpan b);

}  // namespace paddle
