#include "remote/agent/store/index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/text.h"

namespace paddle::agent {
namespace {

// "paddlectl store 1\n" and the boot's id, then records {id, u32 mode, stamp, CRC32C of these}.
constexpr std::string_view kMagic = "paddlectl store 1\n";
constexpr std::size_t kRecordBytes = 32 + 4 + sizeof(FileStamp) + 4;
constexpr std::size_t kIndexBytesMax = 256U << 20U;
// The file is rewritten when it has this many records more than twice the number of objects.
constexpr std::size_t kStaleRecordsMax = 10'000;

Result<std::string> header() {
  PADDLE_TRY(const std::string boot, read_file("/proc/sys/kernel/random/boot_id", 100));
  return std::string(kMagic) + boot;
}

Bytes record_of(const ObjectKey& key, const FileStamp& stamp) {
  Bytes record;
  append_bytes(record, std::span<const std::byte>(key.id));
  append_bytes(record, std::span(&key.mode, 1));
  append_bytes(record, std::span(&stamp, 1));
  const std::uint32_t sum = crc32c(record);
  append_bytes(record, std::span(&sum, 1));
  return record;
}

}  // namespace

std::string ObjectKey::name() const {
  return fmt::format("{}-{:o}", to_hex(id), mode);
}

Status StoreIndex::load(int folder) {
  verified_.clear();
  pending_.clear();
  log_ = UniqueFd(::openat(folder, "index", O_RDWR | O_APPEND | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!log_ || ::fstat(log_.get(), &info) != 0) return begin_anew(folder);
  PADDLE_TRY(const std::string expected, header());
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < expected.size() || size > kIndexBytesMax) return begin_anew(folder);
  Bytes text(size);
  PADDLE_TRY_STATUS(read_exact(log_.get(), text, TimePoint::max()));
  if (as_text(ByteSpan(text).first(expected.size())) != expected) return begin_anew(folder);
  std::size_t records = 0;
  for (std::size_t at = expected.size(); at + kRecordBytes <= size; at += kRecordBytes) {
    const ByteSpan record = ByteSpan(text).subspan(at, kRecordBytes);
    // A crash cut off a record; later ones are misaligned and fail the same check.
    if (load_le<std::uint32_t>(record.data() + kRecordBytes - 4) !=
        crc32c(record.first(kRecordBytes - 4))) {
      return begin_anew(folder);
    }
    ObjectKey key;
    FileStamp stamp;
    std::memcpy(key.id.data(), record.data(), key.id.size());
    std::memcpy(&key.mode, record.data() + 32, sizeof key.mode);
    std::memcpy(&stamp, record.data() + 36, sizeof stamp);
    verified_[key.name()] = stamp;
    ++records;
  }
  const bool torn = (size - expected.size()) % kRecordBytes != 0;
  if (torn || records > 2 * verified_.size() + kStaleRecordsMax) return begin_anew(folder);
  return {};
}

Status StoreIndex::begin_anew(int folder) {
  verified_.clear();
  PADDLE_TRY(const std::string text, header());
  const std::string temporary = "index.new-" + std::to_string(::getpid());
  log_ = UniqueFd(::openat(folder, temporary.c_str(),
                           O_RDWR | O_APPEND | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!log_) return system_error(Errc::kResource, "create the store's index");
  PADDLE_TRY_STATUS(write_all(log_.get(), as_bytes(text), TimePoint::max()));
  if (::renameat(folder, temporary.c_str(), folder, "index") == 0) return {};
  return system_error(Errc::kResource, "rename the store's index");
}

bool StoreIndex::knows(const std::string& name, const FileStamp& stamp) const {
  const auto found = verified_.find(name);
  return found != verified_.end() && found->second == stamp;
}

void StoreIndex::record(const ObjectKey& key, const FileStamp& stamp) {
  verified_[key.name()] = stamp;
  append_bytes(pending_, std::span<const std::byte>(record_of(key, stamp)));
}

Status StoreIndex::save() {
  if (pending_.empty()) return {};
  Status written = write_all(log_.get(), pending_, TimePoint::max());
  pending_.clear();
  return written;
}

}  // namespace paddle::agent
