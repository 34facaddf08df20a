// A chunked file on its way into the store. Chunks that are in the store or that an interrupted
// push has left are copied from there, the others arrive; the object appears once it is whole.
//
// A large file with a few changes is not copied if its only link is the one that this push
// replaces: assemble() removes that link and writes the new chunks into the old object.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <vector>

#include "remote/agent/store/store.h"

namespace paddle::agent {

// Locations of the chunks that the store has.
class ChunkMap {
 public:
  explicit ChunkMap(const Store& store);

  struct Location {
    std::uint32_t object = 0;  // index into names()
    std::uint32_t size = 0;
    std::uint64_t offset = 0;
  };
  const Location* find(const Chunk& chunk) const;
  const std::string& name(std::uint32_t object) const { return names_[object]; }

 private:
  struct FirstBytes {
    std::size_t operator()(const Sha256Digest& digest) const {
      return load_le<std::size_t>(digest.data());
    }
  };
  std::vector<std::string> names_;
  std::unordered_map<Sha256Digest, Location, FirstBytes> locations_;
};

class IncomingFile {
 public:
  // `path` is the file's path after the push. kData when the list does not match the key or size.
  static Result<std::unique_ptr<IncomingFile>> begin(Store& store, const ObjectKey& key,
                                                     const SafePath& path, std::uint64_t size,
                                                     Bytes list, const ChunkMap& map);

  // The chunks that must be sent: one bit per chunk, the lowest first.
  Bytes lacking() const;
  // Total of the chunks that will arrive or be copied.
  std::uint64_t bytes_to_write() const;
  // A chunk's offset and size; empty for an invalid number.
  std::optional<std::pair<std::uint64_t, std::uint32_t>> range_of(std::uint32_t chunk) const;
  // Copies chunks from the store. May take long, so reply about the missing ones first.
  Status copy_known();
  // kData when the bytes are not that chunk, or it is not missing.
  Status add(std::uint32_t chunk, ByteSpan bytes);
  // True when all chunks are here and assemble() has to be called.
  bool waits() const { return left_ == 0 && !replaced_.empty(); }
  // wanted: objects that the push needs unchanged.
  Status assemble(const std::set<std::string>& wanted);

 private:
  struct Known {
    std::uint32_t chunk;
    ChunkMap::Location location;
    std::string object;
  };
  IncomingFile(Store& store, SafePath path) : store_(store), path_(std::move(path)) {}
  std::uint64_t size() const;
  void find_partial();
  void punch_holes();
  void keep_what_stayed();
  bool share(const std::string& object) const;
  Status copy_from_objects();
  Status write_into(int detached) const;
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
  std::string replaced_;       // the object that assemble() updates in place; "": none
  std::vector<Known> stayed_;  // chunks that keep their places in `replaced_`
  std::size_t left_ = 0;
  UniqueFd fd_;
};

}  // namespace paddle::agent
