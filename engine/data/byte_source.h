// Source of the bytes of a data file: plain, decompressed, or the output of a program.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"

namespace paddle::data {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Reads at most into.size() > 0 bytes; 0 at the end. kData: the file is wrong or cannot be read;
  // the message names it. kInterrupted: stop_fd became readable.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  // Skips the next `count` bytes; false if the source can skip them only by reading.
  virtual bool skip(std::uint64_t /*count*/) { return false; }
  // Bytes that were read from the file itself, before any decompression; 0 if this is not known.
  virtual std::uint64_t position() const = 0;
};

struct SourceOptions {
  std::vector<std::string> pipe_command = {};  // an argument vector; empty: read the file itself
  std::vector<std::string> command = {};       // one, too; paths are then names of objects
  std::string folder = ".";                    // working directory of both programs
  Duration pipe_timeout = std::chrono::seconds(600);  // longest silence of a program
  int stop_fd = -1;  // an eventfd that ends waits for a program; needed for programs
};

// Opens a file for reading; on failure the result is empty and errno is set. Duplicates the
// standard input: opened by its path, a file would be read again from its start, and a socket could
// not be opened.
UniqueFd open_file(const std::string& path);
// Opens for seeking what open_source() would read. What a command prints is copied to a file
// without a name in options.folder. kResource: there is no room.
Result<UniqueFd> open_seekable(const std::string& path, const SourceOptions& options);
// Offset of a file, which a program may share and move; 0 if the file has no offset.
std::uint64_t position_of(const UniqueFd& file);

// Path that stands for the standard input, from its current offset on.
inline const std::string kStandardInput = "/dev/stdin";

// Decompresses .gz (RFC 1952, any number of members), .zst (RFC 8878, any number of frames), .bz2
// and .xz (any number of streams); other files are plain. A pipe_command gets the file itself as
// its standard input. A command prints the bytes of an object, which are decompressed in the same
// way.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const SourceOptions& options);

// The functions below are the parts of open_source(). This one decompresses the bytes of another
// source according to the ending of `path`; messages name `path`. A plain source is returned as it
// is. Zero bytes after a member are padding, and an empty file has no bytes. kData: the file ends
// inside a member or frame, its checksum is wrong, or something else follows its end. kResource: a
// window of more than 128 MiB (zstd --long) would bring the memory of all decoders above
// `memory_max`.
Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> from,
                                                 const std::string& path, std::uint64_t memory_max);
// Half of the memory that this process may use.
std::uint64_t decoder_memory_max();
// Starts options.pipe_command in options.folder with `file` as its standard input, without a shell,
// in a process group of its own. The source ends when the output has ended and the program has
// exited with 0. kData: it exits with another code, is killed by a signal, or is silent for longer
// than options.pipe_timeout. The program does not outlive the source, nor the thread that called
// this.
Result<std::unique_ptr<ByteSource>> open_pipe(UniqueFd file, const std::string& path,
                                              const SourceOptions& options);
// As open_pipe(), but starts options.command with two more arguments: "read" and an object's name,
// or "list" and a pattern. Its standard input is empty.
Result<std::unique_ptr<ByteSource>> open_command(std::string_view verb, const std::string& name,
                                                 const SourceOptions& options);

}  // namespace paddle::data
