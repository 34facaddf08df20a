// The verified objects of the store, with their files' stamps. Trusted until the next boot only:
// after a power failure, data that was never written to disk may be missing.
#pragma once

#include <string>
#include <unordered_map>

#include "base/fd.h"
#include "base/sha256.h"
#include "proto/content.h"

namespace paddle::agent {

// The identity of an object: its content and the permission bits that all links share.
struct ObjectKey {
  Sha256Digest id{};
  std::uint32_t mode = 0;

  // The file name: "<hex of the id>-<octal mode>".
  std::string name() const;
};

class StoreIndex {
 public:
  // Reads the file `index` in the folder; starts empty when it is damaged or from another boot.
  Status load(int folder);
  bool knows(const std::string& name, const FileStamp& stamp) const;
  // Adds an object; save() writes it to the file.
  void record(const ObjectKey& key, const FileStamp& stamp);
  void forget(const std::string& name) { verified_.erase(name); }
  Status save();

 private:
  Status begin_anew(int folder);

  UniqueFd log_;
  std::unordered_map<std::string, FileStamp> verified_;
  Bytes pending_;
};

}  // namespace paddle::agent
