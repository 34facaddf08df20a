// Destination of an export: a file that gets its name once it is complete, standard output, or
// another stream such as a pipe.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/result.h"

namespace paddle::exporting {

class Sink {
 public:
  // `path` "" is standard output. A link is followed; a pipe or a character device is written
  // directly, and never replaced. kUsage: a folder or a block device; kResource: the file cannot be
  // created.
  static Result<Sink> open(const std::string& path);
  Sink(Sink&& other) noexcept;
  Sink& operator=(Sink&&) = delete;
  ~Sink();  // without finish(), no file is left

  // False for standard output and other streams, which cannot be patched.
  bool is_file() const { return !path_.empty(); }
  // kInterrupted: the stream's reader has closed it; kResource: no room.
  Status write(ByteSpan bytes);
  Status write(std::string_view text) { return write(as_bytes(text)); }
  std::uint64_t written() const { return written_; }
  // Replaces bytes that were written to a file before.
  Status patch(std::uint64_t offset, ByteSpan bytes);
  // Makes the file durable under its name, with the mode of the file that it replaces.
  Status finish();

 private:
  Sink() = default;
  // Creates the file, without a name if the file system supports that.
  Status make_file(const std::string& path);
  Status make_named_file();
  int fd() const;
  std::string shown() const { return is_file() ? path_ : "the export"; }
  Status flush();

  std::string path_;       // the file's; "": a stream
  std::string temporary_;  // name of the file until finish(); "": none yet
  unsigned mode_ = 0;      // the replaced file's; 0: there is none
  UniqueFd fd_;            // none for standard output
  Bytes buffer_;
  std::uint64_t written_ = 0;
  bool is_finished_ = false;
};

}  // namespace paddle::exporting
