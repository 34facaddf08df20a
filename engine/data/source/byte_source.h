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
  // Reads at most into.size() > 0 bytes; 0 at the end. kData names the file; kInterrupted: stop_fd
  // became readable.
  virtual Result<std::size_t> read(std::span<std::byte> into) = 0;
  // Passes over the next `count` bytes; false for a source that must read them to get there.
  virtual bool skip(std::uint64_t /*count*/) { return false; }
  // Bytes of the file itself that are read, whatever became of them; 0 where it cannot be told.
  virtual std::uint64_t position() const = 0;
};

struct SourceOptions {
  std::vector<std::string> pipe_command = {};  // an argument vector; empty: read the file itself
  std::vector<std::string> command = {};       // likewise; paths are names of objects that it reads
  std::string folder = ".";                    // working directory of both
  Duration pipe_timeout = std::chrono::seconds(600);  // longest silence of a program
  int stop_fd = -1;  // an eventfd that ends waiting for a program, which requires one
};

// Opens a file to be read; nothing if that fails, with errno. Opened by its path, standard input
// that is a file would be read again from its start, and a socket not at all.
UniqueFd open_file(const std::string& path);
// The same of what open_source() reads, where that is no file: it is copied to one without a name
// in options.folder. kResource: there is no room.
Result<UniqueFd> open_seekable(const std::string& path, const SourceOptions& options);
// The offset of a file that may be shared with a program; 0 for what has none.
std::uint64_t position_of(const UniqueFd& file);

// Path that stands for the standard input, from where that is now.
inline const std::string kStandardInput = "/dev/stdin";

// Decompresses .gz (RFC 1952, any number of members), .zst (RFC 8878, any number of frames), .bz2
// and .xz (any number of streams); other files are plain. A pipe_command gets the file itself as
// its standard input. A command prints the bytes of an object, which are decompressed likewise.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path,
                                                const SourceOptions& options);

// Its parts. Decompresses the bytes of another source as the ending of `path` says, which is also
// for messages; a plain source is returned as it is. Zero bytes behind a member are padding, and an
// empty file has no bytes. kData: the file ends inside a member or frame, its checksum is wrong, or
// something else follows its end. kResource: a window of more than 128 MiB (zstd --long) would
// bring the memory of all decoders above `memory_max`.
Result<std::unique_ptr<ByteSource>> decompressed(std::unique_ptr<ByteSource> from,
                                                 const std::string& path, std::uint64_t memory_max);
// Half of the memory that this process may use.
std::uint64_t decoder_memory_max();
// Starts options.pipe_command in options.folder with `file` as its standard input, without a shell,
// in a process group of its own. The source ends with its output, once it has exited with 0. kData:
// another code, a signal, or silence for longer than options.pipe_timeout. The program does not
// outlive the source, nor the thread that called this.
Result<std::unique_ptr<ByteSource>> open_pipe(UniqueFd file, const std::string& path,
                                              const SourceOptions& options);
// Likewise options.command with two more arguments, "read" and an object's name, or "list" and a
// pattern, and nothing to read.
Result<std::unique_ptr<ByteSource>> open_command(std::string_view verb, const std::string& name,
                                                 const SourceOptions& options);

}  // namespace paddle::data
