// The files that were pushed to this node, each once, by what they are: root/store. What a job sees
// are hard links to them, so the jobs of a node share a file, and its permission bits have no write
// access. Nothing here is durable by fsync: after a boot an object is verified before it is used.
//
//   store/objects/<id>-<mode>   an object (StoreIndex)     store/chunks/<id>-<mode>   its chunks
//   store/partial/<id>-<mode>   chunks that arrived        store/index, store/lock
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "remote/agent/root/root.h"
#include "remote/agent/store/index.h"

namespace paddle::agent {

class Store {
 public:
  // Made when absent. Holds the store's lock against sweep() until it is destroyed.
  static Result<std::unique_ptr<Store>> open(const Root& root);

  // True when the object is whole; one that the index does not vouch for is read to know.
  bool holds(const ObjectKey& key, std::uint64_t size);
  // kData when the content is not what the key says.
  Status add(const ObjectKey& key, ByteSpan content);
  // A whole file in partial/ becomes the object; `list` is that of its chunks.
  Status complete(const ObjectKey& key, ByteSpan list);

  // The name in the folder becomes a link to the object; true when it was not one already.
  Result<bool> place(const ObjectKey& key, int folder, const std::string& name);
  // True when the object is in use at `path` and nowhere else.
  bool is_only_at(const std::string& object, const SafePath& path) const;
  // The object, which is only at `path`, goes from there and becomes what has arrived of `key`, to
  // be written to. Nothing, and all is as before, when somebody has it open or has come to use it.
  Result<UniqueFd> take(const std::string& object, const SafePath& path, const ObjectKey& key);

  // What was noted of the objects outlives this.
  Status save() { return index_.save(); }

  // The objects that are known to be whole and have chunks, with these.
  struct Chunked {
    std::string name;
    std::vector<Chunk> chunks;
  };
  std::vector<Chunked> chunked() const;
  Result<UniqueFd> open_object(const std::string& name) const;
  Result<UniqueFd> open_partial(const ObjectKey& key) const;  // made when absent

  // Removes what no job uses, unless another push is on its way.
  void sweep();

 private:
  bool verify(const ObjectKey& key, std::uint64_t size);
  Result<UniqueFd> take_alone(const std::string& object, const SafePath& path,
                              const ObjectKey& key);
  Status link_over(const std::string& object, int folder, const std::string& name);

  UniqueFd root_, folder_, objects_, chunks_, partial_, lock_;
  StoreIndex index_;
};

// Removes what no job uses from the store, if there is one: after a job was removed.
void sweep_store(const Root& root);

}  // namespace paddle::agent
