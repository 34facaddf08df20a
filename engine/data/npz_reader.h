// Reader of a numpy .npz file in chunks of whole records. All arrays are decompressed at the same
// time, chunk by chunk, so that memory does not grow with the file.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/config/data_config.h"
#include "engine/data/byte_source.h"
#include "engine/data/chunk.h"
#include "engine/data/npy.h"
#include "engine/data/zip_archive.h"

namespace paddle::data {

class NpzReader final : public ChunkSource {
 public:
  // `data` must outlive the reader.
  NpzReader(std::string path, std::uint32_t file, const config::DataConfig& data,
            SourceOptions options);

  Status go_to(const ChunkPlace& place) override;
  Result<bool> next(Chunk& chunk) override;

 private:
  // An array whose numbers are read from the first to the last.
  struct Array {
    std::string name;
    NpyHeader header;
    std::unique_ptr<ByteSource> source;
    std::uint64_t rows = 0;  // shape[0]
    std::uint64_t each = 1;  // numbers in a row
  };
  struct Slot {
    Array values;
    std::optional<Array> offsets;      // if records have different numbers of ids
    std::vector<std::uint64_t> ahead;  // offsets already read: the ends of the next records
    std::uint64_t begin = 0;           // offset of the next record
  };

  Status open();
  Status open_slot(const config::DataSlotConfig& slot);
  Result<Array> open_array(const std::string& name) const;
  Result<Array> open_array_of(const ZipArchive::Member& member) const;
  std::string members_text() const;
  Status check_offsets(const Slot& slot) const;
  Status read_ahead(Slot& slot, std::uint64_t count) const;
  Result<std::uint64_t> cut(std::uint64_t most) const;
  Status read_slot(Slot& slot, std::uint64_t records, SlotNumbers& numbers) const;
  Status finish();
  Error at(const Array& array, Error error) const;

  std::string path_;
  const config::DataConfig& data_;
  SourceOptions options_;
  std::optional<ZipArchive> archive_;
  std::vector<Slot> slots_;
  std::uint64_t records_ = 0;
  std::uint64_t record_bytes_ = 0;  // bytes of a record, except ids with offsets
  ChunkPlace end_;                  // end of the last chunk
};

}  // namespace paddle::data
