// Reads and writes whole folder trees through descriptors of open folders, so that a symbolic link
// that another process puts into a path is not followed.
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

constexpr int kTreeDepthMax = 500;             // levels of folders; each keeps a descriptor open
constexpr std::uint32_t kKeptModeBits = 0777;  // without setuid, setgid and sticky

struct TreeEntry {
  enum class Kind { kFile, kFolder, kLink, kOther };

  std::string path;
  Kind kind = Kind::kFile;
  std::uint32_t mode = 0;     // the bits in kKeptModeBits
  std::int64_t mtime_ns = 0;  // since 1970
  std::uint64_t size = 0;     // files only
  std::string link;           // target of a link

  bool is_folder() const { return kind == Kind::kFolder; }
};

// Describes the entry `name` of an open folder, without following a link; `path` becomes its path.
// kData with errno set if it cannot be read.
Result<TreeEntry> entry_at(int folder, const std::string& name, std::string path);

// Whether this errno value means that a process has removed the file or folder meanwhile, on this
// machine or (ESTALE) on another one.
bool is_removed(int error);

// Visits everything below an open folder in the order of names, a folder before its content,
// without following links. gone() counts the entries that were removed during the walk. Paths begin
// with `prefix`.
class TreeWalk {
 public:
  // Receives an entry, its open folder and its name. Returns false to skip what is below a folder.
  using Visit = std::function<Result<bool>(const TreeEntry&, int folder, const std::string& name)>;

  // Receives the path of a folder that this user may not read. Without this callback, such a folder
  // ends the walk with an error.
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

// A new file in an open folder, under a temporary name until commit() gives it its own.
// remove_old_drafts() removes the drafts that killed programs left.
class DraftFile {
 public:
  // `mode`, less the bits of the umask, is the file's mode unless commit() sets another one.
  static Result<DraftFile> create(int folder, std::uint32_t mode = 0600);
  DraftFile(DraftFile&&) = default;
  DraftFile& operator=(DraftFile&&) = default;
  ~DraftFile();

  int fd() const { return fd_.get(); }
  // Gives the file its name, in place of a file or link with that name. kData: anything else has
  // the name. Without mtime_ns the file keeps the time of its last write.
  Status commit(const std::string& name, std::optional<std::uint32_t> mode = {},
                std::optional<std::int64_t> mtime_ns = {});

 private:
  DraftFile() = default;

  UniqueFd folder_, fd_;
  std::string name_;  // the temporary name; "" after commit() and in a moved-from object
};
void remove_old_drafts(int folder);

// Writes entries below an open folder. Missing folders above an entry are created. REQUIRES:
// make_folder() precedes the entries below that folder.
class TreeWriter {
 public:
  // `mode_kept`: bits that folders keep of their mode.
  explicit TreeWriter(int root, std::uint32_t mode_kept = kKeptModeBits)
      : root_(root), mode_kept_(mode_kept) {}

  // Makes the folder or uses an existing one. kData: anything else has the path.
  Status make_folder(const TreeEntry& folder);
  // Makes the link, in place of a file or link. kData: anything else has the path.
  Status make_link(const TreeEntry& link);
  // Opens the folder above `path`, below root; makes missing folders.
  Result<UniqueFd> open_above(const std::string& path);
  // Gives the folders their modes and times, which writing into them would change.
  Status finish();

 private:
  int root_;
  std::uint32_t mode_kept_;
  std::map<std::string, TreeEntry> folders_;
};

}  // namespace paddle
