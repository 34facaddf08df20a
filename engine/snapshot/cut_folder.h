// Folder of the cuts of one shard: "cut-000000012345.full", "cut-000000012400.delta". For one
// thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/snapshot/cut_file.h"
#include "engine/snapshot/cut_store.h"
#include "engine/snapshot/file_system.h"

namespace paddle::snapshot {

class CutFolder {
 public:
  // Makes the folder, durably, and reads all of its files. A file that is damaged, or a delta whose
  // cut before is not here, is removed with a warning, and so are those of another `fingerprint`.
  static Result<CutFolder> open(FileSystem& files, std::string path, std::uint64_t fingerprint);

  // Begins a cut that follows the newest one, `after`, or without it a full one. An error
  // of begin(), add() or end() is kResource, drops the cut and removes its file.
  Status begin(std::uint64_t number, std::optional<std::uint64_t> after);
  Status add(std::uint32_t kind, ByteSpan payload);
  // Makes the cut durable: it is whole.
  Status end();
  // Drops the cut that has no end, if there is one.
  void drop();

  // The newest whole cut; nullopt when there is none.
  std::optional<std::uint64_t> newest() const;
  std::vector<std::uint64_t> numbers() const;
  // As of CutStore.
  Status read(std::uint64_t number, const CutStore::Use& use);
  Status forget_before(std::uint64_t number);
  Status forget_after(std::uint64_t number);

  const std::string& path() const { return path_; }

 private:
  struct Cut {
    CutMark mark;
    bool is_full = false;
  };

  CutFolder(FileSystem& files, std::string path, std::uint64_t fingerprint,
            std::unique_ptr<Directory> directory)
      : files_(&files),
        path_(std::move(path)),
        fingerprint_(fingerprint),
        directory_(std::move(directory)) {}
  // Cuts by the names in the folder, ascending; of one number the full one first.
  Result<std::vector<Cut>> names() const;
  Status take_whole();
  Result<CutMark> verify(const Cut& cut, CutFileReader& reader) const;
  Status check_header(const Cut& cut, const CutHeader& header) const;
  Status read_file(const Cut& cut, const CutStore::Use& use, Status& used) const;
  Status remove(const Cut& cut);
  // Removes a file that is not whole.
  void discard(const Cut& cut, const std::string& why);

  FileSystem* files_;
  std::string path_;
  std::uint64_t fingerprint_;
  std::unique_ptr<Directory> directory_;
  std::vector<Cut> cuts_;  // whole, ascending
  Cut open_;               // of writer_
  std::optional<CutFileWriter> writer_;
};

}  // namespace paddle::snapshot
