// A file's identity, size and times as the kernel reports them: while they are equal, a hash
// computed earlier still holds.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace paddle {

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
