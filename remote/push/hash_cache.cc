#include "remote/push/hash_cache.h"

#include <filesystem>

#include "base/crc32c.h"
#include "base/fd.h"

namespace paddle::remote {
namespace {

// "paddlectl hashes 1\n", then entries {u32 path bytes, path, stamp, id, u32 chunk list bytes,
// list}, then the CRC32C of all before it.
constexpr std::string_view kMagic = "paddlectl hashes 1\n";
constexpr std::int64_t kSettledNs = 2'000'000'000;

template <class T>
void append(Bytes& to, const T& value) {
  append_bytes(to, std::span<const T>(&value, 1));
}

class Reader {
 public:
  explicit Reader(ByteSpan from) : from_(from) {}
  bool empty() const { return from_.empty(); }
  Result<ByteSpan> take(std::size_t size) {
    if (size > from_.size()) return Error{Errc::kData, "the hash cache is cut off", ""};
    const ByteSpan taken = from_.first(size);
    from_ = from_.subspan(size);
    return taken;
  }
  template <class T>
  Result<T> take_value() {
    static_assert(std::is_trivially_copyable_v<T>);
    PADDLE_TRY(const ByteSpan bytes, take(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  ByteSpan from_;
};

}  // namespace

HashCache::HashCache(std::string file) : file_(std::move(file)) {
  if (file_.empty()) return;
  const auto text = read_file(file_, kHashCacheBytesMax);
  if (!text || !load(as_bytes(*text))) entries_.clear();
}

Status HashCache::load(ByteSpan text) {
  const Error foreign{Errc::kData, "not a hash cache", ""};
  std::uint32_t sum = 0;
  if (text.size() < kMagic.size() + sizeof sum) return foreign;
  const ByteSpan body = text.first(text.size() - sizeof sum);
  sum = load_le<std::uint32_t>(text.data() + body.size());
  if (as_text(body.first(kMagic.size())) != kMagic || crc32c(body) != sum) return foreign;
  for (Reader reader(body.subspan(kMagic.size())); !reader.empty();) {
    Entry entry;
    PADDLE_TRY(const auto path_bytes, reader.take_value<std::uint32_t>());
    PADDLE_TRY(const ByteSpan path, reader.take(path_bytes));
    PADDLE_TRY(entry.stamp, reader.take_value<FileStamp>());
    PADDLE_TRY(entry.content.id, reader.take_value<Sha256Digest>());
    PADDLE_TRY(const auto list_bytes, reader.take_value<std::uint32_t>());
    PADDLE_TRY(const ByteSpan list, reader.take(list_bytes));
    if (is_chunked(entry.stamp.size)) {
      PADDLE_TRY(entry.content.chunks, decode_chunks(list, entry.stamp.size));
    }
    entries_.emplace(as_text(path), std::move(entry));
  }
  return {};
}

std::optional<FileContent> HashCache::find(const std::string& path, const FileStamp& stamp) {
  const auto found = entries_.find(path);
  if (found == entries_.end() || found->second.stamp != stamp) return std::nullopt;
  found->second.used = true;
  return found->second.content;
}

void HashCache::put(const std::string& path, const FileStamp& stamp, std::int64_t now_ns,
                    const FileContent& content) {
  if (std::max(stamp.modified_ns, stamp.changed_ns) + kSettledNs > now_ns) return;
  entries_[path] = {stamp, content, true};
  changed_ = true;
}

Status HashCache::save() {
  if (file_.empty() || !changed_) return {};
  Bytes text;
  append_bytes(text, std::span(kMagic));
  for (const bool used : {true, false}) {
    for (const auto& [path, entry] : entries_) {
      const Bytes list = encode_chunks(entry.content.chunks);
      if (entry.used != used || text.size() + path.size() + list.size() + 256 > kHashCacheBytesMax)
        continue;
      append(text, static_cast<std::uint32_t>(path.size()));
      append_bytes(text, std::span(std::string_view(path)));
      append(text, entry.stamp);
      append(text, entry.content.id);
      append(text, static_cast<std::uint32_t>(list.size()));
      append_bytes(text, std::span<const std::byte>(list));
    }
  }
  append(text, crc32c(text));
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(file_).parent_path(), error);
  if (error) return Error{Errc::kResource, file_ + ": " + error.message(), ""};
  changed_ = false;
  return replace_file(file_, text);
}

}  // namespace paddle::remote
