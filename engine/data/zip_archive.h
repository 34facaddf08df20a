// Zip archive whose members can be read in parallel, each with a handle of its own.
#pragma once

#include <map>

#include "engine/data/byte_source.h"

namespace paddle::data {

class ZipArchive {
 public:
  // A member as the directory describes it, which may be wrong.
  struct Member {
    std::uint64_t place = 0;   // position in the directory
    std::uint64_t number = 0;  // index in the directory
    std::uint64_t bytes = 0;   // decompressed
  };

  // Opens the archive in `file`. Messages name `path`. kData: it is no regular file, no zip
  // archive, or cut off; or two members have the same name.
  static Result<ZipArchive> open(UniqueFd file, const std::string& path);

  // Members by name; those with names of over 1024 bytes are left out.
  const std::map<std::string, Member, std::less<>>& members() const { return members_; }
  // The bytes of a member. kData: it is damaged, encrypted, or neither stored nor deflated. Errors
  // do not name the file. The source may outlive the archive.
  Result<std::unique_ptr<ByteSource>> open_member(const Member& member) const;

  // Size of the file.
  std::uint64_t file_bytes() const;
  // Bytes read from the file so far, including by members. Bytes that are read again count again.
  std::uint64_t bytes_read() const;

 private:
  struct File;
  class Handle;
  class MemberSource;

  std::shared_ptr<File> file_;
  std::map<std::string, Member, std::less<>> members_;
};

}  // namespace paddle::data
