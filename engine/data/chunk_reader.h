// Reader of a data file in chunks of whole lines. Where a chunk ends depends only on the bytes, not
// on the sizes of the reads. A byte order mark at the beginning is left out. If the first 256 KiB
// contain '\r' and no '\n', as in files of old Macs, each '\r' becomes a '\n'.
#pragma once

#include <optional>

#include "engine/data/byte_source.h"
#include "engine/data/chunk.h"

namespace paddle::data {

constexpr std::size_t kLineBytesMax = 16U << 20U;
constexpr std::size_t kChunkBytes = 256U << 10U;  // a chunk is longer if its only line is

class ChunkReader final : public ChunkSource {
 public:
  ChunkReader(std::string path, std::uint32_t file, SourceOptions options)
      : path_(std::move(path)), options_(std::move(options)), end_{.file = file} {}

  // Errors are those of open_source().
  Status go_to(const ChunkPlace& place) override;
  Result<bool> next(Chunk& chunk) override;

 private:
  Status open();
  Status read_head();
  Status pass_over(std::uint64_t count);
  Result<std::optional<std::size_t>> last_line_end(Bytes& text);
  Status fill(Bytes& text, std::size_t size);
  Status skip_line(Bytes& text);

  std::string path_;
  SourceOptions options_;
  std::unique_ptr<ByteSource> source_;
  bool at_end_ = false;
  bool ends_in_cr_ = false;  // lines end in '\r' without '\n'
  ChunkPlace end_;           // end of the last chunk
  std::uint64_t read_ = 0;   // bytes read from the source
  Bytes rest_;               // bytes read after the last chunk
};

}  // namespace paddle::data
