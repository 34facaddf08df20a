// Folders with all that is below them, read and written through open folders: a link that somebody
// puts in the way leads nowhere.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace paddle {

constexpr int kTreeDepthMax = 500;  // folders within each other, each of which is kept open
constexpr std::uint32_t kKeptModeBits = 0777;  // never setuid, setgid and sticky

struct TreeEntry {
  enum class Kind { kFile, kFolder, kLink, kOther };

  std::string path;
  Kind kind = Kind::kFile;
  std::uint32_t mode = 0;     // kKeptModeBits of it
  std::int64_t mtime_ns = 0;  // since 1970
  std::uint64_t size = 0;     // of a file
  std::string link;           // its target

  bool is_folder() const { return kind == Kind::kFolder; }
};

// A name in an open folder, itself where it is a link. kData with errno set when it is not there.
Result<TreeEntry> entry_at(int folder, const std::string& name, std::string path);

// True after a system call that failed because somebody has removed a file or folder meanwhile,
// here or (ESTALE) on another machine.
bool is_removed(int error);

// Visits everything below an open folder in the order of names, a folder before what is in it, and
// no link's target. What is removed meanwhile is counted in `gone`. `prefix` stands before paths.
class TreeWalk {
 public:
  // Gets the entry, and its folder and name. False: nothing below this folder is visited.
  using Visit = std::function<Result<bool>(const TreeEntry&, int folder, const std::string& name)>;

  // Gets the path of a folder that may not be read. Without it that ends the walk with an error.
  using Denied = std::function<void(const std::string& path)>;

  explicit TreeWalk(Visit visit, Denied denied = {})
      : visit_(std::move(visit)), denied_(std::move(denied)) {}
  Status run(int folder, const std::string& prefix);
  std::uint64_t gone() const { return gone_; }

 private:
  Status walk(int folder, const std::string& prefix, int depth);
  Status enter(int folder, const std::string& name, const TreeEntry& entry, int depth);

  Visit visit_;
  Denied denied_;
  std::uint64_t gone_ = 0;
};

// A new file in an open folder, which gets its name when it is whole. What a killed program left of
// one is removed with remove_old_drafts().
class DraftFile {
 public:
  // `mode`: of the file, unless commit() has another one. The umask takes its bits from it.
  static Result<DraftFile> create(int folder, std::uint32_t mode = 0600);
  DraftFile(DraftFile&&) = default;
  DraftFile& operator=(DraftFile&&) = default;
  ~DraftFile();

  int fd() const { return fd_.get(); }
  // In place of a file or link that has the name; kData for anything else there. Without a time the
  // file has that of its last write.
  Status commit(const std::string& name, std::optional<std::uint32_t> mode = {},
                std::optional<std::int64_t> mtime_ns = {});

 private:
  DraftFile() = default;

  UniqueFd folder_, fd_;
  std::string name_;  // "": it has its own name, or was moved from
};
void remove_old_drafts(int folder);

// Writes entries below an open folder. An entry comes after the folders above it, which are made
// where they were not given.
class TreeWriter {
 public:
  // `mode_kept`: bits that folders keep of their mode.
  explicit TreeWriter(int root, std::uint32_t mode_kept = kKeptModeBits)
      : root_(root), mode_kept_(mode_kept) {}

  // Uses the one that is there. kData for a file or link in its place.
  Status make_folder(const TreeEntry& folder);
  // In place of a file or link.
  Status make_link(const TreeEntry& link);
  // The open folder of a path, below root.
  Result<UniqueFd> open_above(const std::string& path);
  // Gives the folders their modes and times, which writing into them would change.
  Status finish();

 private:
  int root_;
  std::uint32_t mode_kept_;
  std::map<std::string, TreeEntry> folders_;
};

}  // namespace paddle
