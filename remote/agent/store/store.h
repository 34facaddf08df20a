// The content-addressed store of pushed files, root/store. Jobs see hard links to its objects, so
// the jobs of a node share each file, which is read-only for that reason. Nothing is fsynced: after
// a boot an object is verified before it is used.
//
//   store/objects/<id>-<mode>   an object (StoreIndex)     store/chunks/<id>-<mode>   its chunks
//   store/partial/<id>-<mode>   chunks that arrived        store/index, store/lock
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "remote/agent/node/root.h"
#include "remote/agent/store/index.h"

namespace paddle::agent {

class Store {
 public:
  // Creates the store when absent. Holds its lock against sweep() until destroyed.
  static Result<std::unique_ptr<Store>> open(const Root& root);

  // True when the object is whole; it is read and verified unless the index knows it.
  bool holds(const ObjectKey& key, std::uint64_t size);
  // kData when the content does not match the key.
  Status add(const ObjectKey& key, ByteSpan content);
  // Moves a whole file from partial/ to objects/; `list` is its chunk list.
  Status complete(const ObjectKey& key, ByteSpan list);

  // Links the object to the name in the folder; false when the name was a link to it already.
  Result<bool> place(const ObjectKey& key, int folder, const std::string& name);
  // True when `path` is the only link to the object outside of the store.
  bool is_only_at(const std::string& object, const SafePath& path) const;
  // Takes the only link at `path` for in-place update to `key`. Empty, with nothing changed, when
  // another process has the object open or has linked it.
  Result<UniqueFd> detach(const std::string& object, const SafePath& path, const ObjectKey& key);

  // Writes the index.
  Status save() { return index_.save(); }

  // The chunked objects that are known to be whole.
  struct Chunked {
    std::string name;
    std::vector<Chunk> chunks;
  };
  std::vector<Chunked> chunked() const;
  Result<UniqueFd> open_object(const std::string& name) const;
  Result<UniqueFd> open_partial(const ObjectKey& key) const;  // created when absent

  // Removes objects that no job uses, unless another push is running.
  void sweep();

 private:
  bool verify(const ObjectKey& key, std::uint64_t size);
  Result<UniqueFd> detach_alone(const std::string& object, const SafePath& path,
                                const ObjectKey& key);
  Status link_over(const std::string& object, int folder, const std::string& name);

  UniqueFd root_, folder_, objects_, chunks_, partial_, lock_;
  StoreIndex index_;
};

// Store::sweep() of the store below root, if there is one; called after a job was removed.
void sweep_store(const Root& root);

}  // namespace paddle::agent
