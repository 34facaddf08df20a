// Which objects of the store were verified, and what their files looked like then. It is believed
// until the next boot only: a machine that lost its power may have lost what it had not written.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "base/fd.h"
#include "base/file_stamp.h"
#include "proto/content.h"

namespace paddle::agent {

// What an object is: its content, and the permission bits every link to it has.
struct ObjectKey {
  Sha256Digest id{};
  std::uint32_t mode = 0;

  // "<hex of the id>-<octal mode>": its file's name.
  std::string name() const;
};

class StoreIndex {
 public:
  // Reads `index` in the folder; one that is damaged or of another boot begins anew.
  Status load(int folder);
  bool knows(const std::string& name, const FileStamp& stamp) const;
  // Kept when save() is called.
  void note(const ObjectKey& key, const FileStamp& stamp);
  void forget(const std::string& name) { verified_.erase(name); }
  Status save();

 private:
  Status begin_anew(int folder);

  UniqueFd log_;
  std::unordered_map<std::string, FileStamp> verified_;
  Bytes pending_;
};

}  // namespace paddle::agent
