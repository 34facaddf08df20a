#include "base/holes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"

namespace paddle {
namespace {

constexpr std::size_t kHoleBlockBytes = 4096;  // block size of most file systems

bool write_zeros(int fd, std::uint64_t offset, std::uint64_t bytes) {
  const Bytes zeros(std::min<std::uint64_t>(bytes, 1U << 20U), std::byte{0});
  while (bytes > 0) {
    const auto part = ByteSpan(zeros).first(std::min<std::uint64_t>(bytes, zeros.size()));
    if (!write_at(fd, part, offset)) return false;
    offset += part.size();
    bytes -= part.size();
  }
  return true;
}

}  // namespace

bool is_all_zero(ByteSpan bytes) {
  // The first byte is zero, and every byte equals the one before it.
  return bytes.empty() || (bytes[0] == std::byte{0} &&
                           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

bool make_hole(int fd, std::uint64_t offset, std::uint64_t bytes) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (offset < size) {
    const std::uint64_t inside = std::min(bytes, size - offset);
    if (::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                    static_cast<off_t>(inside)) != 0 &&
        !write_zeros(fd, offset, inside)) {
      return false;
    }
  }
  return offset + bytes <= size || ::ftruncate(fd, static_cast<off_t>(offset + bytes)) == 0;
}

bool write_with_holes(int fd, ByteSpan bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    // Starts with the bytes up to the next block boundary, then adds the following blocks of the
    // same kind: a hole or data.
    std::size_t size =
        std::min<std::uint64_t>(bytes.size(), kHoleBlockBytes - offset % kHoleBlockBytes);
    const bool is_hole = size == kHoleBlockBytes && is_all_zero(bytes.first(size));
    while (size < bytes.size()) {
      const std::size_t more = std::min(bytes.size() - size, kHoleBlockBytes);
      const bool is_zero = more == kHoleBlockBytes && is_all_zero(bytes.subspan(size, more));
      if (is_zero != is_hole) break;
      size += more;
    }
    if (!(is_hole ? make_hole(fd, offset, size) : write_at(fd, bytes.first(size), offset)))
      return false;
    bytes = bytes.subspan(size);
    offset += size;
  }
  return true;
}

DataRange next_data(int fd, std::uint64_t offset, std::uint64_t end) {
  const off_t begin = ::lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  if (begin < 0) return errno == ENXIO ? DataRange{end, end} : DataRange{offset, end};
  const off_t hole = ::lseek(fd, begin, SEEK_HOLE);
  const std::uint64_t first = std::min(static_cast<std::uint64_t>(begin), end);
  return {first, hole < 0 ? end : std::min(static_cast<std::uint64_t>(hole), end)};
}

}  // namespace paddle
