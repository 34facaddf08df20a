// The blocks of dense parameters that one shard stores, one after the other, with the optimizer's
// state planes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/pool.h"
#include "base/result.h"
#include "engine/math/huge_pages.h"
#include "engine/math/optimizer.h"
#include "engine/table/partition.h"
#include "proto/parameters.pb.h"

namespace paddle::table {

class DenseTable {
 public:
  // REQUIRES: the set is valid. kResource if values and state would take more than bytes_max.
  // `parallel` helps with gradients; empty: the calling thread does all.
  static Result<DenseTable> create(const wire::ParameterSet& set, std::uint32_t shard,
                                   std::uint64_t bytes_max, Parallel parallel = {});
  // Creates a table of these blocks, whatever their shards.
  static Result<DenseTable> create(const wire::ParameterSet& set,
                                   std::span<const parameter::DenseBlock> blocks,
                                   std::uint64_t bytes_max, Parallel parallel = {});

  std::uint64_t size() const { return size_; }  // elements over all blocks
  std::span<const float> values() const { return values_; }
  std::uint32_t state_width() const { return state_width_; }
  std::size_t blocks() const { return blocks_.size(); }

  // Plane 0 is the values, 1..state_width the state. kUsage if out of range.
  Result<std::span<const float>> read(std::uint32_t plane, std::uint64_t offset,
                                      std::uint64_t count) const;
  Status write(std::uint32_t plane, std::uint64_t offset, std::span<const float> from,
               std::uint64_t update_count);
  std::uint64_t update_count(std::uint64_t offset) const;

  // A part of a savepoint: values, state and updates of consecutive elements, about `bytes_max`
  // bytes.
  struct SavepointPart {
    Bytes bytes;
    std::uint64_t next = 0;  // the element that the next part begins with; size() after the last
  };
  // Makes the part from this element on. The parts from element 0 on are one savepoint if no update
  // happens between them.
  SavepointPart take_savepoint(std::uint64_t from, std::uint64_t bytes_max) const;
  // kData if the bytes are not a part of a savepoint of such a table; some elements may be
  // overwritten then.
  Status restore_savepoint(ByteSpan part);

  // A gradient of all elements in consecutive parts.
  using Parts = std::span<const std::span<const float>>;
  // Whether the parts cover all elements, and each block lies within one part.
  bool fits(Parts gradient) const;
  // Name of the first parameter with a gradient that is not below the limit, or "". REQUIRES:
  // fits().
  std::string find_above(float limit, Parts gradient);
  // Updates every block that is not static. Returns the name of the first parameter of which a
  // value or its state is not finite afterwards, or "". REQUIRES: fits().
  std::string apply(float learning_rate, Parts gradient);
  std::string apply(float learning_rate, std::span<const float> gradient) {
    return apply(learning_rate, {&gradient, 1});
  }

 private:
  struct Block {
    std::uint32_t parameter = 0;
    std::uint64_t offset = 0;  // in this shard
    std::uint64_t size = 0;
    std::uint64_t update_count = 0;
    std::string name;
    optim::UpdateRule rule;
  };

  std::span<float> state_of(const Block& block);
  // Calls use(block number, its gradient) in order. Stops and returns false if `use` returns false,
  // or if a block does not lie within one part.
  template <class Use>
  bool for_blocks(Parts gradient, const Use& use) const;
  // A range of a block's elements, with their gradient.
  struct Piece {
    std::size_t block = 0;
    std::size_t begin = 0;  // in the block
    std::span<const float> gradient;
  };
  // Calls use(piece) for all blocks, in any order, on several threads if there are many pieces.
  template <class Use>
  void for_pieces(Parts gradient, const Use& use);

  std::uint64_t size_ = 0;
  std::uint32_t state_width_ = 0;
  std::vector<Block> blocks_;
  LargeArray<float> values_;
  LargeArray<float> state_;  // block after block, each with its planes
  Parallel parallel_;
  std::vector<Piece> pieces_;  // scratch of for_pieces()
};

}  // namespace paddle::table
