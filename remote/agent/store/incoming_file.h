// One chunked file on its way into the store: what earlier files and an interrupted push left of it
// is taken from there, the rest arrives. Not seen by anybody before it is whole.
//
// A large file that was changed here and there and that only this push's own place uses, which the
// new one will replace, is not copied: when all has arrived, assemble() writes the new chunks into
// it, out of sight.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "remote/agent/store/store.h"

namespace paddle::agent {

// Where chunks are that the store has already.
class ChunkMap {
 public:
  explicit ChunkMap(const Store& store);

  struct Place {
    std::uint32_t object = 0;  // index into names()
    std::uint32_t size = 0;
    std::uint64_t offset = 0;
  };
  const Place* find(const Chunk& chunk) const;
  const std::string& name(std::uint32_t object) const { return names_[object]; }

 private:
  struct FirstBytes {
    std::size_t operator()(const Sha256Digest& digest) const {
      return load_le<std::size_t>(digest.data());
    }
  };
  std::vector<std::string> names_;
  std::unordered_map<Sha256Digest, Place, FirstBytes> places_;
};

class IncomingFile {
 public:
  // To stand at `path` in the end. kData when the list does not fit the key or the size.
  static Result<std::unique_ptr<IncomingFile>> begin(Store& store, const ObjectKey& key,
                                                     const SafePath& path, std::uint64_t size,
                                                     Bytes list, const ChunkMap& map);

  // A bit a chunk, the lowest first.
  Bytes lacking() const;
  // A chunk's offset and size; nothing when there is none of that number.
  std::optional<std::pair<std::uint64_t, std::uint32_t>> place_of(std::uint32_t chunk) const;
  // Takes what the store has; may take long, so the answer about what it lacks goes first.
  Status copy_known();
  // kData when the bytes are not that chunk, or nobody asked for it.
  Status add(std::uint32_t chunk, ByteSpan bytes);
  // True when all has arrived and only assemble() is left to do.
  bool waits() const { return left_ == 0 && !replaced_.empty(); }
  // wanted: objects that the push needs as they are.
  Status assemble(const std::set<std::string>& wanted);

 private:
  struct Known {
    std::uint32_t chunk;
    ChunkMap::Place place;
    std::string object;
  };
  IncomingFile(Store& store, SafePath path) : store_(store), path_(std::move(path)) {}
  std::uint64_t size() const;
  void take_partial();
  void keep_what_stayed();
  bool share(const std::string& object) const;
  Status copy_from_objects();
  Status write_into(int taken) const;
  Status finish();

  Store& store_;
  SafePath path_;
  ObjectKey key_;
  Bytes list_;
  std::vector<Chunk> chunks_;
  std::vector<std::uint64_t> offsets_;
  std::vector<bool> here_;
  std::vector<bool> wanted_;
  std::vector<Known> known_;
  std::string replaced_;       // the object that becomes this one, when assemble() has to,
  std::vector<Known> stayed_;  // and what of it stays
  std::size_t left_ = 0;
  UniqueFd fd_;
};

}  // namespace paddle::agent
