#include "engine/data/content_hash.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/crc32c.h"
#include "base/fd.h"
#include "base/rng.h"

namespace paddle::data {
namespace {

constexpr std::uint64_t kHashedBlockBytes = 256ULL << 10U;

// Size of a regular file. kData: the file is of another kind. Such a file must not be opened,
// because the writer of a pipe would notice it.
Result<std::uint64_t> bytes_of_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return system_error(Errc::kData, "stat " + path);
  if (!S_ISREG(status.st_mode)) return Error{Errc::kData, path + " is not a regular file"};
  return static_cast<std::uint64_t>(status.st_size);
}

// Checksum of the block at `offset`. If the file becomes shorter meanwhile, only the bytes that are
// left are hashed.
Result<std::uint32_t> checksum_at(int file, std::uint64_t offset, Bytes& block) {
  std::size_t read = 0;
  while (read < block.size()) {
    const ssize_t count =
        ::pread(file, block.data() + read, block.size() - read, static_cast<off_t>(offset + read));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(Errc::kData, "read data");
    if (count == 0) break;
    read += static_cast<std::size_t>(count);
  }
  return crc32c(ByteSpan(block).first(read));
}

}  // namespace

Result<std::uint64_t> hash_content(const std::vector<std::string>& files, std::uint64_t bytes_max) {
  std::vector<std::uint64_t> sizes;
  std::uint64_t bytes = 0;
  for (const std::string& path : files) {
    PADDLE_TRY(const std::uint64_t size, bytes_of_file(path));
    sizes.push_back(size);
    bytes += size;
  }
  // Every n-th block of each file, and its last one.
  const std::uint64_t every =
      bytes_max == 0 ? 1 : std::max<std::uint64_t>(1, (bytes + bytes_max - 1) / bytes_max);
  std::uint64_t hash = hash_combine(stable_hash("data"), files.size());
  Bytes block(kHashedBlockBytes);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const UniqueFd file(::open(files[i].c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) return system_error(Errc::kData, "open " + files[i]);
    hash = hash_combine(hash, sizes[i]);
    const std::uint64_t blocks = (sizes[i] + kHashedBlockBytes - 1) / kHashedBlockBytes;
    for (std::uint64_t at = 0; at < blocks; ++at) {
      if (at % every != 0 && at + 1 != blocks) continue;
      PADDLE_TRY(const std::uint32_t checksum,
                 checksum_at(file.get(), at * kHashedBlockBytes, block));
      hash = hash_combine(hash, checksum);
    }
  }
  return std::max<std::uint64_t>(hash, 1);
}

ContentHash::ContentHash(std::vector<std::string> files, std::uint64_t names_hash) {
  if (names_hash != 0) {
    value_ = names_hash;
    return;
  }
  thread_ = std::thread([this, files = std::move(files)] {
    const auto hash = hash_content(files);
    if (hash) value_ = *hash;
  });
}

ContentHash::~ContentHash() {
  if (thread_.joinable()) thread_.join();
}

std::uint64_t ContentHash::value() {
  if (thread_.joinable()) thread_.join();
  return value_;
}

}  // namespace paddle::data
