#include "remote/agent/store/incoming_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/holes.h"
#include "remote/agent/node/files.h"

namespace paddle::agent {
namespace {

// A smaller file is copied: that is quick, and its path always names a file.
constexpr std::uint64_t kReplaceBytesMin = 8U << 20U;

}  // namespace

ChunkMap::ChunkMap(const Store& store) {
  for (Store::Chunked& object : store.chunked()) {
    const auto index = static_cast<std::uint32_t>(names_.size());
    names_.push_back(std::move(object.name));
    std::uint64_t offset = 0;
    for (const Chunk& chunk : object.chunks) {
      locations_.try_emplace(chunk.hash, Location{index, chunk.size, offset});
      offset += chunk.size;
    }
  }
}

const ChunkMap::Location* ChunkMap::find(const Chunk& chunk) const {
  const auto found = locations_.find(chunk.hash);
  return found == locations_.end() || found->second.size != chunk.size ? nullptr : &found->second;
}

Result<std::unique_ptr<IncomingFile>> IncomingFile::begin(Store& store, const ObjectKey& key,
                                                          const SafePath& path, std::uint64_t size,
                                                          Bytes list, const ChunkMap& map) {
  std::unique_ptr<IncomingFile> file(new IncomingFile(store, path));
  PADDLE_TRY(file->chunks_, decode_chunks(list, size));
  if (chunked_id(list, size) != key.id)
    return Error{Errc::kData, "the chunk list does not match its announced hash", ""};
  file->key_ = key;
  file->list_ = std::move(list);
  file->left_ = file->chunks_.size();
  file->here_.resize(file->chunks_.size());
  file->wanted_.resize(file->chunks_.size());
  std::uint64_t offset = 0;
  for (const Chunk& chunk : file->chunks_) {
    file->offsets_.push_back(offset);
    offset += chunk.size;
  }
  PADDLE_TRY(file->fd_, store.open_partial(key));
  file->find_partial();
  for (std::uint32_t i = 0; i < file->chunks_.size(); ++i) {
    if (file->here_[i]) continue;
    const ChunkMap::Location* location = map.find(file->chunks_[i]);
    if (location == nullptr)
      file->wanted_[i] = true;
    else
      file->known_.push_back({i, *location, map.name(location->object)});
  }
  file->keep_what_stayed();
  file->punch_holes();
  return file;
}

std::uint64_t IncomingFile::size() const {
  return chunks_.empty() ? 0 : offsets_.back() + chunks_.back().size;
}

// Finds the chunks that an interrupted push left, by their hashes; holes match none.
void IncomingFile::find_partial() {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0 || info.st_size == 0) return;
  Bytes buffer(kChunkBytesMax);
  for (std::uint32_t i = 0; i < chunks_.size(); ++i) {
    const auto part = std::span(buffer).first(chunks_[i].size);
    if (!read_at(fd_.get(), part, offsets_[i]) || sha256_of(part) != chunks_[i].hash) continue;
    here_[i] = true;
    --left_;
  }
}

// Makes a hole for each chunk of zeros of the size kChunkBytesMax, which chunks inside a hole have;
// it needs no data.
void IncomingFile::punch_holes() {
  static const Sha256Digest kZeros = sha256_of(Bytes(kChunkBytesMax, std::byte{0}));
  for (std::uint32_t i = 0; i < chunks_.size(); ++i) {
    if (!wanted_[i] || chunks_[i].size != kChunkBytesMax || chunks_[i].hash != kZeros) continue;
    if (!make_hole(fd_.get(), offsets_[i], chunks_[i].size)) continue;
    here_[i] = true;
    wanted_[i] = false;
    --left_;
  }
}

Bytes IncomingFile::lacking() const {
  Bytes bits((wanted_.size() + 7) / 8);
  for (std::byte& byte : bits) byte = std::byte{0};
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i]) bits[i / 8] |= std::byte{1} << (i % 8);
  }
  return bits;
}

std::uint64_t IncomingFile::bytes_to_write() const {
  std::uint64_t bytes = 0;
  for (const Known& one : known_) bytes += one.location.size;
  for (std::size_t i = 0; i < wanted_.size(); ++i) bytes += wanted_[i] ? chunks_[i].size : 0;
  return bytes;
}

std::optional<std::pair<std::uint64_t, std::uint32_t>> IncomingFile::range_of(
    std::uint32_t chunk) const {
  if (chunk >= chunks_.size()) return std::nullopt;
  return std::pair(offsets_[chunk], chunks_[chunk].size);
}

// Most changes are local: chunks that kept their offsets in the object with most of the file need
// no copy where the file system can share blocks, or where only this path uses that object.
void IncomingFile::keep_what_stayed() {
  std::unordered_map<std::uint32_t, std::uint64_t> bytes;  // by object
  const auto stayed = [&](const Known& one) { return one.location.offset == offsets_[one.chunk]; };
  for (const Known& one : known_) {
    if (stayed(one)) bytes[one.location.object] += one.location.size;
  }
  const auto most = std::ranges::max_element(bytes, {}, [](const auto& one) { return one.second; });
  if (most == bytes.end()) return;
  const auto first = std::stable_partition(known_.begin(), known_.end(), [&](const Known& one) {
    return one.location.object != most->first || !stayed(one);
  });
  const std::span<const Known> rest(first, known_.end());
  if (share(rest.front().object)) {
    for (const Known& one : rest) here_[one.chunk] = true;
    left_ -= rest.size();
  } else if (most->second >= kReplaceBytesMin && store_.is_only_at(rest.front().object, path_)) {
    replaced_ = rest.front().object;
    stayed_.assign(rest.begin(), rest.end());
    left_ -= rest.size();
  } else {
    return;
  }
  known_.erase(first, known_.end());
}

bool IncomingFile::share(const std::string& object) const {
  struct stat info {};
  if (::fstat(fd_.get(), &info) != 0 || info.st_size != 0)
    return false;  // sharing replaces all content
  const auto from = store_.open_object(object);
  return from && share_content(from->get(), fd_.get()) &&
         ::ftruncate(fd_.get(), static_cast<off_t>(size())) == 0;
}

Status IncomingFile::copy_known() {
  const std::size_t rest = known_.size();
  PADDLE_TRY_STATUS(copy_from_objects());
  left_ -= rest;
  return left_ == 0 && replaced_.empty() ? finish() : Status{};
}

Status IncomingFile::copy_from_objects() {
  UniqueFd from;
  std::string open_name;
  for (std::size_t i = 0; i < known_.size();) {
    const Known& first = known_[i];
    std::uint64_t bytes = first.location.size;
    std::size_t end = i + 1;
    for (; end < known_.size() && known_[end].chunk == known_[end - 1].chunk + 1 &&
           known_[end].object == first.object &&
           known_[end].location.offset == first.location.offset + bytes;
         ++end) {
      bytes += known_[end].location.size;
    }
    if (open_name != first.object) {
      PADDLE_TRY(from, store_.open_object(first.object));
      open_name = first.object;
    }
    PADDLE_TRY_STATUS(
        copy_range(from.get(), first.location.offset, fd_.get(), offsets_[first.chunk], bytes));
    for (; i < end; ++i) here_[known_[i].chunk] = true;
  }
  known_.clear();
  return {};
}

Status IncomingFile::assemble(const std::set<std::string>& wanted) {
  const std::string object = std::exchange(replaced_, {});
  Result<UniqueFd> detached = Error{Errc::kData, "the push needs it", ""};
  if (!wanted.contains(object)) detached = store_.detach(object, path_, key_);
  if (!detached) known_ = std::move(stayed_);
  Status written = detached ? write_into(detached->get()) : copy_from_objects();
  if (written) return finish();
  return store_.holds(key_, size()) ? Status{} : std::move(written);
}

// Writes the chunks that arrived to their offsets.
Status IncomingFile::write_into(int detached) const {
  if (::ftruncate(detached, static_cast<off_t>(size())) != 0)
    return system_error(Errc::kResource, "set the size of a file in the store");
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!here_[i]) continue;
    PADDLE_TRY_STATUS(copy_range(fd_.get(), offsets_[i], detached, offsets_[i], chunks_[i].size));
  }
  return {};
}

// Another push of the same file writes to the same partial file, and may have completed it first.
Status IncomingFile::finish() {
  Status completed = store_.complete(key_, list_);
  return completed || store_.holds(key_, size()) ? Status{} : std::move(completed);
}

Status IncomingFile::add(std::uint32_t chunk, ByteSpan bytes) {
  if (chunk >= chunks_.size() || !wanted_[chunk] || bytes.size() != chunks_[chunk].size ||
      sha256_of(bytes) != chunks_[chunk].hash) {
    return Error{Errc::kData, "the received content does not match its announced hash",
                 "push again"};
  }
  if (here_[chunk]) return {};
  if (!write_with_holes(fd_.get(), bytes, offsets_[chunk]))
    return system_error(Errc::kResource, "write a file in the store");
  here_[chunk] = true;
  return --left_ == 0 && replaced_.empty() ? finish() : Status{};
}

}  // namespace paddle::agent
