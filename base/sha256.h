// SHA-256 (FIPS 180-4), which identifies every file that is sent to another machine, and FileStamp,
// which shows whether a hash computed earlier is still valid.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <memory>

#include "base/bytes.h"
#include "base/result.h"

namespace paddle {

using Sha256Digest = std::array<std::byte, 32>;

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(ByteSpan data);
  Sha256Digest finish();  // at most once, as the last call

 private:
  struct State;
  std::unique_ptr<State> state_;
};

Sha256Digest sha256_of(ByteSpan data);
// The hash of everything from the descriptor's current position to the end of the file, at most
// bytes_max bytes.
Result<Sha256Digest> sha256_of_fd(int fd, std::uint64_t bytes_max = UINT64_MAX);
Result<Sha256Digest> sha256_of_file(const std::string& path);

struct FileStamp {
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  // mtime, since 1970
  std::int64_t changed_ns = 0;   // ctime, which no program can set back
  std::uint64_t inode = 0;
  std::uint64_t device = 0;

  bool operator==(const FileStamp&) const = default;
};

inline FileStamp stamp_of(const struct stat& info) {
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return {static_cast<std::uint64_t>(info.st_size),
          info.st_mtim.tv_sec * kNanoseconds + info.st_mtim.tv_nsec,
          info.st_ctim.tv_sec * kNanoseconds + info.st_ctim.tv_nsec,
          static_cast<std::uint64_t>(info.st_ino), static_cast<std::uint64_t>(info.st_dev)};
}

}  // namespace paddle
