// Start of a stream in the middle of a pass: the chunks that it reads again because the shuffler
// holds some of their records, and the place from which it goes on.
#pragma once

#include <optional>
#include <vector>

#include "engine/data/pass_index.h"
#include "engine/data/shuffler.h"

namespace paddle::data {

struct PassStart {
  struct Chunk {
    IndexedChunk indexed;
    bool is_read = false;  // it has records that the shuffler holds or has not seen
  };
  std::vector<Chunk> chunks;  // behind which the stream goes on, in their order; at least one
  bool are_all = false;       // no other chunk is before them
  std::uint64_t next_chunk = 0;
  std::uint64_t seen = 0;           // number of records that the shuffler has seen
  std::vector<std::uint64_t> held;  // numbers of those that it holds, ascending
  std::uint64_t dropped = 0;        // records that leave it before those of the first batch
};

// Moves a new shuffler to the last record that it has seen before `skip` records have left it, or
// to the end of the index if that is earlier. Nothing, and the shuffler stays, where the index does
// not tell which chunks hold its records.
std::optional<PassStart> find_start(const DatasetOptions& options, std::uint64_t skip,
                                    const PassIndex& index, Shuffler& shuffler);

}  // namespace paddle::data
