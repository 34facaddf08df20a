#include "engine/table/sparse_table.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "engine/memory/copy_row.h"
#include "engine/memory/prefetch.h"
#include "engine/parameter/parameter_set.h"

namespace paddle::table {
namespace {

// Below, an unused part of a huge page would weigh more a row than translation costs.
constexpr std::uint64_t kSmallPageRows = 2U << 20U;

// Memory is prepared ahead of the rows, up to what a port inserts while the kernel clears it: a
// byte a row, with what whole huge pages add, since an index takes 15 of kRowOverheadBytes.
constexpr std::uint64_t kAheadMax = 16U << 20U;

// A block of ids fits twice, so that what it names is never evicted for what it creates.
constexpr std::uint64_t kRowsMin = 1024;

// An update of so many rows takes about as long as turning 2 MiB of small pages into a huge one,
// which is done with it, so often at most.
constexpr std::uint64_t kRowsPerPromotion = 16'384;
constexpr std::uint64_t kPromotionsMax = 7;

// The same for a few bytes a row, whose small pages are few.
constexpr std::uint64_t kSmallPageMarks = 16U << 20U;

std::size_t huge_from(std::uint64_t bytes_per_row, std::uint64_t rows = kSmallPageRows) {
  const std::uint64_t bytes = rows * bytes_per_row;
  return bytes / MemoryRegion::kHugePageBytes * MemoryRegion::kHugePageBytes;
}

// Stays at its largest value: so many updates count as infinitely many.
std::uint32_t increment(std::uint32_t& count) {
  if (count < std::numeric_limits<std::uint32_t>::max()) ++count;
  return count;
}

}  // namespace

SparseTable::SparseTable(const wire::ParameterSet& set, std::uint32_t index, Parallel parallel,
                         MemoryPreparer* preparer)
    : spec_(set.parameters(static_cast<int>(index))),
      notes_(spec_.table()),
      tracks_(set.delta_snapshots()),
      initial_(spec_, set.seed(), parameter::row_width(spec_)),
      rule_(set.optimizer(), spec_),
      width_(parameter::row_width(spec_)),
      state_width_(static_cast<std::uint32_t>(rule_.state_width())),
      row_floats_(width_ * (1 + state_width_) + (shrinks() ? 2 : 0)),
      crosses_lines_(row_floats_ % kLineFloats != 0 && kLineFloats % row_floats_ != 0),
      counts_updates_(optim::counts_updates(set.optimizer())),
      payload_bytes_per_row_(row_floats_ * sizeof(float) +
                             (counts_updates_ ? sizeof(std::uint32_t) : 0)),
      parallel_(std::move(parallel)),
      index_(preparer),
      arena_(huge_from(row_floats_ * sizeof(float)), preparer),
      update_counts_(huge_from(sizeof(std::uint32_t), kSmallPageMarks)),
      seen_(huge_from(sizeof(std::uint16_t), kSmallPageMarks)),
      entry_(spec_.table(), hash_combine(set.seed(), stable_hash(spec_.name()))),
      rows_max_(kRowsMax),
      zeros_(row_floats_, 0.0F) {
  if (spec_.table().bytes_max() > 0) {
    const std::uint64_t share = spec_.table().bytes_max() / set.sparse_shards();
    rows_max_ = std::clamp(share / bytes_for(1), kRowsMin, kRowsMax);
  }
}

std::uint64_t SparseTable::bytes_for(std::uint64_t count) const {
  return count *
         (payload_bytes_per_row_ + kRowOverheadBytes + (expires() ? sizeof(std::uint16_t) : 0) +
          (evicts() ? RecencyList::kBytesPerRow : 0) + (tracks_ ? RowChanges::kBytesPerRow : 0));
}

std::uint64_t SparseTable::room() const {
  return evicts() ? kRowsMax : rows_max_ - std::min(rows_max_, rows());
}

std::uint64_t SparseTable::bytes() const {
  const std::uint64_t row_bytes = rows() * row_floats_ * sizeof(float);
  std::uint64_t bytes = index_.bytes() + arena_.resident(row_bytes) + last_read_.bytes();
  if (counts_updates_) bytes += update_counts_.resident(rows() * sizeof(std::uint32_t));
  if (expires()) bytes += seen_.resident(rows() * sizeof(std::uint16_t));
  if (evicts()) bytes += recency_.bytes(rows());
  if (tracks_) bytes += changes_.bytes(rows());
  return bytes + entry_.bytes();
}

void SparseTable::touch_rows(std::span<const std::uint32_t> numbers) const {
  const std::size_t most = std::min<std::size_t>(row_floats_, kLinesTouchedMax * kLineFloats);
  for (const std::uint32_t number : numbers) {
    if (number == RowIndex::kNone) continue;
    const float* const data = row_data(number);
    for (std::size_t i = 0; i < most; i += kLineFloats) touch(data + i);
    if (crosses_lines_) touch(data + most - 1);
  }
}

// Step by step over a block, which is faster than id by id: a wrong guess of a branch in one step
// throws away no work of the others.
void SparseTable::find(std::span<const std::uint64_t> ids, Block& block) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    block.hashes[i] = RowIndex::hash_of(ids[i]);
    block.homes[i] = index_.home(block.hashes[i]);
  }
  for (std::size_t i = 0; i < ids.size(); ++i) index_.touch_home(block.homes[i]);
  std::size_t far = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    block.numbers[i] = index_.find_home(block.homes[i], block.hashes[i]);
    block.far[far] = static_cast<std::uint16_t>(i);
    far += static_cast<std::size_t>(block.numbers[i] == RowIndex::kNone) &
           static_cast<std::size_t>(index_.goes_behind(block.homes[i]));
  }
  for (std::size_t i = 0; i < far; ++i) index_.touch_behind(block.homes[block.far[i]]);
  for (std::size_t i = 0; i < far; ++i) {
    const std::size_t at = block.far[i];
    block.numbers[at] = index_.find_behind(block.homes[at], block.hashes[at]);
  }
}

void SparseTable::recall(const std::uint32_t* numbers, std::span<const std::uint64_t> ids,
                         Block& block) const {
  std::copy_n(numbers, ids.size(), block.numbers.begin());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (block.numbers[i] != RowIndex::kNone) continue;
    block.hashes[i] = RowIndex::hash_of(ids[i]);
    block.homes[i] = index_.home(block.hashes[i]);
  }
}

std::uint64_t SparseTable::count_absent(std::span<const std::uint64_t> ids) const {
  if (rows() == 0) return ids.size();
  return static_cast<std::uint64_t>(std::count_if(ids.begin(), ids.end(), [this](std::uint64_t id) {
    return index_.find(id) == RowIndex::kNone;
  }));
}

Status SparseTable::reserve(std::uint64_t count) {
  if (count > kRowsMax - rows()) {
    return Error{
        Errc::kResource,
        fmt::format("table '{}' would hold more than {} rows on one port", spec_.name(), kRowsMax),
        "use more pservers or ports_num_for_sparse"};
  }
  PADDLE_TRY_STATUS(index_.reserve(count));
  const std::uint64_t all = rows() + count;
  for (std::uint64_t i = 0; i <= std::min(count / kRowsPerPromotion, kPromotionsMax); ++i) {
    arena_.promote(rows() * row_floats_ * sizeof(float));
  }
  PADDLE_TRY_STATUS(arena_.reserve(all * row_floats_ * sizeof(float)));
  const std::uint64_t used = rows() * row_floats_ * sizeof(float);
  if (rows() >= 2 * MemoryRegion::kHugePageBytes) {
    const std::uint64_t ahead = std::min(rows() - MemoryRegion::kHugePageBytes, kAheadMax);
    index_.prepare(ahead);
    arena_.prepare(used, used + ahead);
  }
  PADDLE_TRY_STATUS(entry_.reserve(count));
  if (expires()) PADDLE_TRY_STATUS(seen_.reserve(all * sizeof(std::uint16_t)));
  if (evicts()) PADDLE_TRY_STATUS(recency_.reserve(all));
  if (tracks_) PADDLE_TRY_STATUS(changes_.reserve(all));
  if (!counts_updates_) return {};
  return update_counts_.reserve(all * sizeof(std::uint32_t));
}

std::uint32_t SparseTable::create(std::uint64_t home, std::uint64_t hash, std::uint64_t id) {
  const std::uint32_t number =
      evicts() && rows() >= rows_max_ ? evict() : static_cast<std::uint32_t>(rows());
  index_.insert_at(home, hash, number);
  if (evicts()) recency_.push_front(number, id);
  if (tracks_) changes_.on_create(number);
  if (shrinks()) *score(number) = {};
  if (counts_updates_) update_counts()[number] = 0;
  return number;
}

void SparseTable::apply(float learning_rate, std::span<const std::uint64_t> ids,
                        std::span<const float> gradients) {
  PADDLE_CHECK(gradients.size() == ids.size() * push_width());
  if (rule_.is_static()) return;
  LastRead::Rest rest = last_read_.rest();
  LastRead::Rest* const recalled = last_read_.is_of(index_.version(), ids) ? &rest : nullptr;
  // One block alone where rows are evicted: what it names must not make place for what it creates.
  const std::size_t together = (parallel_ && !evicts() ? kBlocksTogether : 1) * kBlock;
  blocks_.resize(together / kBlock);
  for (std::size_t begin = 0; begin < ids.size(); begin += together) {
    const std::size_t count = std::min(together, ids.size() - begin);
    apply_blocks(learning_rate, ids.subspan(begin, count),
                 gradients.subspan(begin * push_width(), count * push_width()), recalled);
  }
  last_read_ = {};  // a table at rest holds no more than its rows need
}

// Only creating, which numbers the rows, is done in order and by one thread.
void SparseTable::apply_blocks(float learning_rate, std::span<const std::uint64_t> ids,
                               std::span<const float> gradients, LastRead::Rest* recalled) {
  index_.make_room(ids.size());
  for_blocks(ids.size(), [&](std::size_t begin, std::size_t count) {
    Block& block = blocks_[begin / kBlock];
    const auto own = ids.subspan(begin, count);
    recalled == nullptr ? find(own, block) : recall(recalled->numbers + begin, own, block);
  });
  for (std::size_t begin = 0; begin < ids.size(); begin += kBlock) {
    Block& block = blocks_[begin / kBlock];
    create_missing(ids.subspan(begin, std::min(kBlock, ids.size() - begin)),
                   gradients.data() + begin * push_width(), block);
    if (recalled == nullptr || recalled->first_values == nullptr) continue;
    block.first_values = recalled->first_values;
    recalled->first_values += block.new_count * width_;
  }
  if (recalled != nullptr) recalled->numbers += ids.size();
  for_blocks(ids.size(), [&](std::size_t begin, std::size_t count) {
    update(learning_rate, ids.subspan(begin, count), gradients.data() + begin * push_width(),
           blocks_[begin / kBlock]);
  });
}

void SparseTable::create_missing(std::span<const std::uint64_t> ids, const float* gradients,
                                 Block& block) {
  std::size_t missing = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    block.new_ids[missing] = static_cast<std::uint16_t>(i);
    missing += static_cast<std::size_t>(block.numbers[i] == RowIndex::kNone);
  }
  for (std::size_t i = 0; i < missing; ++i) index_.touch_room(block.homes[block.new_ids[i]]);
  // First of all, so that no row of the block makes place for another.
  for (std::size_t i = 0; evicts() && i < ids.size(); ++i) {
    if (block.numbers[i] != RowIndex::kNone) recency_.touch(block.numbers[i]);
  }
  block.new_count = 0;
  block.first_values = nullptr;
  for (std::size_t i = 0; i < missing; ++i) {
    const std::uint16_t at = block.new_ids[i];
    const float* const notes = gradients + at * push_width() + width_;
    if (!entry_.takes_all() && !entry_.admits(ids[at], pass_, notes_.slot(notes))) continue;
    block.numbers[at] = create(block.homes[at], block.hashes[at], ids[at]);
    block.new_ids[block.new_count++] = at;
  }
  arena_.populate(rows() * row_floats_ * sizeof(float));
  if (!expires() && !tracks_ && !shrinks()) return;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::uint32_t number = block.numbers[i];
    if (number == RowIndex::kNone) continue;
    if (expires()) seen()[number] = pass_;
    if (tracks_) changes_.on_update(number);
    if (!shrinks()) continue;
    const float* const notes = gradients + i * push_width() + width_;
    score(number)->shows += notes[0];
    score(number)->clicks += notes[1];
  }
}

void SparseTable::start_rows(std::span<const std::uint64_t> ids, const Block& block) const {
  std::array<optim::InitialRows::Row, kBlock> rows;
  for (std::size_t i = 0; i < block.new_count; ++i) {
    const std::size_t at = block.new_ids[i];
    rows[i] = {ids[at], row_data(block.numbers[at])};
    if (block.first_values == nullptr) continue;
    copy_row(block.first_values + i * width_, width_, rows[i].to);
  }
  const auto created = std::span(rows).first(block.new_count);
  if (block.first_values == nullptr) initial_.fill(created);
  for (std::size_t i = 0; state_width_ > 0 && i < created.size(); ++i) {
    rule_.start({rows[i].to, width_}, {rows[i].to + width_, state_width_ * width_});
  }
}

void SparseTable::update(float learning_rate, std::span<const std::uint64_t> ids,
                         const float* gradients, const Block& block) {
  start_rows(ids, block);
  std::array<optim::Elements, kRun> updates;
  for (std::size_t begin = 0; begin < ids.size(); begin += kRun) {
    const std::size_t end = std::min(begin + kRun, ids.size());
    touch_rows(std::span(block.numbers).subspan(begin, end - begin));
    std::size_t pending = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::uint32_t number = block.numbers[i];
      if (number == RowIndex::kNone) continue;
      float* const data = row_data(number);
      updates[pending] = {width_, data, gradients + i * push_width(), data + width_, width_};
      if (counts_updates_) {
        rule_.apply(learning_rate, increment(update_counts()[number]), {&updates[pending], 1});
      } else {
        ++pending;
      }
    }
    if (pending > 0) rule_.apply(learning_rate, 1, {updates.data(), pending});
  }
}

}  // namespace paddle::table
