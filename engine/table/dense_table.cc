#include "engine/table/dense_table.h"

#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "engine/math/initial.h"
#include "engine/math/update_kernels.h"

namespace paddle::table {
namespace {

constexpr std::size_t kPieceElements = 16U << 10U;
constexpr std::size_t kSharedFrom = 4;  // pieces; fewer are not worth waking other threads

// Collects the lowest block number that any thread adds.
class FirstBlock {
 public:
  explicit FirstBlock(std::size_t blocks) : blocks_(blocks), number_(blocks) {}
  void add(std::size_t number) {
    std::size_t known = number_;
    while (number < known && !number_.compare_exchange_weak(known, number)) {
    }
  }
  bool is_any() const { return number_ < blocks_; }
  std::size_t number() const { return number_; }

 private:
  std::size_t blocks_;
  std::atomic<std::size_t> number_;
};

constexpr std::size_t kPieceHeaderBytes = 3 * sizeof(std::uint64_t);

Error malformed_piece(std::string_view why) {
  return {Errc::kData, fmt::format("a part of a savepoint of dense values {}", why),
          "remove the damaged savepoint, so that the job continues from the previous one"};
}

}  // namespace

Result<DenseTable> DenseTable::create(const wire::ParameterSet& set, std::uint32_t shard,
                                      std::uint64_t bytes_max, Parallel parallel) {
  std::vector<parameter::DenseBlock> blocks = parameter::partition_dense(set);
  std::erase_if(blocks, [&](const parameter::DenseBlock& block) { return block.shard != shard; });
  auto table = create(set, blocks, bytes_max, std::move(parallel));
  if (table) return table;
  return std::move(table).error().with(fmt::format("dense shard {}", shard));
}

Result<DenseTable> DenseTable::create(const wire::ParameterSet& set,
                                      std::span<const parameter::DenseBlock> blocks,
                                      std::uint64_t bytes_max, Parallel parallel) {
  DenseTable table;
  table.parallel_ = std::move(parallel);
  table.state_width_ = static_cast<std::uint32_t>(optim::state_width(set.optimizer()));
  const std::uint64_t elements_max = bytes_max / (sizeof(float) * (1 + table.state_width_));
  for (const parameter::DenseBlock& block : blocks) {
    const auto& spec = set.parameters(static_cast<int>(block.parameter));
    if (block.size > elements_max - table.size_) {
      return Error{Errc::kResource,
                   fmt::format("it would hold more than its limit of {} bytes (parameter '{}')",
                               bytes_max, spec.name()),
                   "use more pservers, or nodes with more memory"};
    }
    table.blocks_.push_back({block.parameter, table.size_, block.size, 0, spec.name(),
                             optim::UpdateRule(set.optimizer(), spec)});
    table.size_ += block.size;
  }
  // Allocated once, now that the size is known to fit, so that nothing is moved.
  table.values_.resize(table.size_);
  table.state_.resize(table.size_ * table.state_width_);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = table.blocks_[i];
    const auto values = std::span(table.values_).subspan(block.offset, block.size);
    optim::fill_initial(values, set.parameters(static_cast<int>(block.parameter)), set.seed(),
                        blocks[i].begin);
    block.rule.start(values, table.state_of(block));
  }
  return table;
}

Result<std::span<const float>> DenseTable::read(std::uint32_t plane, std::uint64_t offset,
                                                std::uint64_t count) const {
  if (plane > state_width_ || offset > size_ || count > size_ - offset) {
    return Error{Errc::kUsage,
                 fmt::format("no elements [{}, +{}) in plane {} (this shard has {} elements, {} "
                             "state planes)",
                             offset, count, plane, size_, state_width_)};
  }
  if (plane == 0) return std::span<const float>(values_).subspan(offset, count);
  // A state plane is contiguous within one block only, so exports read it block by block.
  for (const Block& block : blocks_) {
    if (offset < block.offset || offset - block.offset >= block.size) continue;
    if (count > block.size - (offset - block.offset)) break;
    const std::uint64_t begin =
        block.offset * state_width_ + (plane - 1) * block.size + (offset - block.offset);
    return std::span<const float>(state_).subspan(begin, count);
  }
  return Error{Errc::kUsage, "a state range must lie in one block"};
}

Status DenseTable::write(std::uint32_t plane, std::uint64_t offset, std::span<const float> from,
                         std::uint64_t update_count) {
  PADDLE_TRY(const auto to, read(plane, offset, from.size()));
  for (Block& block : blocks_) {
    if (block.offset < offset + from.size() && offset < block.offset + block.size) {
      block.update_count = update_count;
    }
  }
  LargeArray<float>& owner = plane == 0 ? values_ : state_;
  std::copy(from.begin(), from.end(), owner.begin() + (to.data() - owner.data()));
  return {};
}

std::uint64_t DenseTable::update_count(std::uint64_t offset) const {
  for (const Block& block : blocks_) {
    if (offset >= block.offset && offset - block.offset < block.size) return block.update_count;
  }
  return 0;
}

// Savepoints, and restoring the table from them. A part is a sequence of pieces: u64 offset, u64
// elements, u64 updates, and the elements' values and state planes. A piece lies in one block.

DenseTable::SavepointPart DenseTable::take_savepoint(std::uint64_t from,
                                                     std::uint64_t bytes_max) const {
  const std::size_t element_bytes = (1 + state_width_) * sizeof(float);
  SavepointPart part{{}, from};
  std::uint64_t left = std::max<std::uint64_t>(bytes_max / element_bytes, 1);
  for (const Block& block : blocks_) {
    if (part.next >= block.offset + block.size) continue;
    if (left == 0) break;
    const std::uint64_t count = std::min(block.offset + block.size - part.next, left);
    const std::array<std::uint64_t, 3> header{part.next, count, block.update_count};
    append_bytes(part.bytes, std::span<const std::uint64_t>(header));
    for (std::uint32_t plane = 0; plane <= state_width_; ++plane) {
      append_bytes(part.bytes, *read(plane, part.next, count));
    }
    part.next += count;
    left -= count;
  }
  return part;
}

Status DenseTable::restore_savepoint(ByteSpan part) {
  while (!part.empty()) {
    if (part.size() < kPieceHeaderBytes) return malformed_piece("ends within a header");
    const auto offset = load_le<std::uint64_t>(part.data());
    const auto count = load_le<std::uint64_t>(part.data() + 8);
    const auto update_count = load_le<std::uint64_t>(part.data() + 16);
    part = part.subspan(kPieceHeaderBytes);
    const auto block = std::ranges::find_if(blocks_, [&](const Block& one) {
      return offset >= one.offset && offset - one.offset < one.size;
    });
    if (block == blocks_.end() || count > block->size - (offset - block->offset)) {
      return malformed_piece(
          fmt::format("has elements [{}, +{}), which are not in one block of "
                      "this shard",
                      offset, count));
    }
    const std::size_t plane_bytes = count * sizeof(float);
    if (part.size() < plane_bytes * (1 + state_width_)) return malformed_piece("ends too early");
    block->update_count = update_count;
    float* const state = state_of(*block).data();
    for (std::uint32_t plane = 0; plane <= state_width_ && count > 0; ++plane) {
      float* const to = plane == 0 ? values_.data() + offset
                                   : state + (plane - 1) * block->size + (offset - block->offset);
      std::memcpy(to, part.data(), plane_bytes);
      part = part.subspan(plane_bytes);
    }
  }
  return {};
}

template <class Use>
bool DenseTable::for_blocks(Parts gradient, const Use& use) const {
  std::uint64_t begin = 0;  // place of gradient.front() in this shard
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    while (!gradient.empty() && begin + gradient.front().size() <= block.offset) {
      begin += gradient.front().size();
      gradient = gradient.subspan(1);
    }
    const bool is_within =
        !gradient.empty() && block.offset + block.size <= begin + gradient.front().size();
    if (!is_within || !use(i, gradient.front().subspan(block.offset - begin, block.size))) {
      return false;
    }
  }
  return true;
}

bool DenseTable::fits(Parts gradient) const {
  std::uint64_t size = 0;
  for (const auto part : gradient) size += part.size();
  return size == size_ && for_blocks(gradient, [](std::size_t, auto) { return true; });
}

template <class Use>
void DenseTable::for_pieces(Parts gradient, const Use& use) {
  pieces_.clear();
  for_blocks(gradient, [&](std::size_t block, std::span<const float> part) {
    for (std::size_t begin = 0; begin < part.size(); begin += kPieceElements) {
      const std::size_t count = std::min(kPieceElements, part.size() - begin);
      pieces_.push_back({block, begin, part.subspan(begin, count)});
    }
    return true;
  });
  if (parallel_ && pieces_.size() >= kSharedFrom) {
    return parallel_(pieces_.size(), [&](std::size_t i) { use(pieces_[i]); });
  }
  for (const Piece& piece : pieces_) use(piece);
}

std::string DenseTable::find_above(float limit, Parts gradient) {
  FirstBlock first(blocks_.size());
  for_pieces(gradient, [&](const Piece& piece) {
    if (!optim::all_below(piece.gradient, limit)) first.add(piece.block);
  });
  return first.is_any() ? blocks_[first.number()].name : "";
}

std::span<float> DenseTable::state_of(const Block& block) {
  return std::span(state_).subspan(block.offset * state_width_, block.size * state_width_);
}

std::string DenseTable::apply(float learning_rate, Parts gradient) {
  PADDLE_CHECK(fits(gradient));
  for (Block& block : blocks_) {
    if (!block.rule.is_static()) ++block.update_count;
  }
  FirstBlock first(blocks_.size());
  for_pieces(gradient, [&](const Piece& piece) {
    const Block& block = blocks_[piece.block];
    if (block.rule.is_static()) return;
    const optim::Elements elements{
        piece.gradient.size(), values_.data() + block.offset + piece.begin, piece.gradient.data(),
        state_width_ > 0 ? state_of(block).data() + piece.begin : nullptr, block.size};
    if (!block.rule.apply(learning_rate, block.update_count, {&elements, 1})) {
      first.add(piece.block);
    }
  });
  return first.is_any() ? blocks_[first.number()].name : "";
}

}  // namespace paddle::table
