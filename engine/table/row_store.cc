#include "engine/table/row_store.h"

#include <algorithm>

#include "engine/math/optimizer.h"
#include "engine/table/parameter_set.h"

namespace paddle::table {
namespace {

// Rows from which on a table uses huge pages. In a smaller table the unused part of a huge page
// would cost more per row than address translation does.
constexpr std::uint64_t kSmallPageRows = 2U << 20U;

// Rows from which on marks of a few bytes per row use huge pages: they need few small pages.
constexpr std::uint64_t kSmallPageMarks = 16U << 20U;

// Memory is prepared ahead of the rows: one byte per row, and what rounding to huge pages adds, up
// to what a port inserts while the kernel clears memory. RowLayout::bytes() includes that byte,
// since an index takes only 15 of kIndexBytesPerRow.
constexpr std::uint64_t kAheadMax = 16U << 20U;

// Room for two blocks of ids, so that no row of a block is evicted for another row of it.
constexpr std::uint64_t kRowsMin = 1024;

// An update of so many rows takes about as long as turning 2 MiB of small pages into a huge page.
// So each update turns one such page for each so many rows, and one more, up to a limit.
constexpr std::uint64_t kRowsPerPromotion = 16'384;
constexpr std::uint64_t kPromotionsMax = 7;

std::size_t huge_from(std::uint64_t bytes_per_row, std::uint64_t rows = kSmallPageRows) {
  const std::uint64_t bytes = rows * bytes_per_row;
  return bytes / MemoryRegion::kHugePageBytes * MemoryRegion::kHugePageBytes;
}

}  // namespace

RowLayout::RowLayout(const wire::ParameterSet& set, const wire::ParameterSpec& spec)
    : expires(spec.table().expire_passes() > 0),
      evicts(spec.table().bytes_max() > 0 && spec.table().evict()),
      shrinks(spec.table().has_shrink()),
      tracks(set.delta_snapshots()),
      counts_updates(optim::counts_updates(set.optimizer())),
      width(parameter::row_width(spec)),
      state_width(optim::state_width(set.optimizer())),
      floats(width * (1 + state_width) +
             (shrinks ? sizeof(parameter::RowScore) / sizeof(float) : 0)),
      rows_max(RowStore::kRowsMax) {
  if (spec.table().bytes_max() == 0) return;
  const std::uint64_t bytes_max = spec.table().bytes_max() / set.sparse_shards();
  rows_max = std::clamp(bytes_max / bytes(), kRowsMin, RowStore::kRowsMax);
}

std::uint64_t RowLayout::bytes() const {
  return payload_bytes() + RowStore::kIndexBytesPerRow + (expires ? sizeof(std::uint16_t) : 0) +
         (evicts ? RecencyList::kBytesPerRow : 0) + (tracks ? RowChanges::kBytesPerRow : 0);
}

RowStore::RowStore(const RowLayout& layout, MemoryPreparer* preparer)
    : layout_(layout),
      preparer_(preparer),
      crosses_lines_(layout.floats % kLineFloats != 0 && kLineFloats % layout.floats != 0),
      index_(preparer),
      arena_(huge_from(layout.floats * sizeof(float)), preparer),
      update_counts_(huge_from(sizeof(std::uint32_t), kSmallPageMarks)),
      seen_(huge_from(sizeof(std::uint16_t), kSmallPageMarks)) {}

std::uint64_t RowStore::bytes() const {
  const std::uint64_t all = rows();
  std::uint64_t bytes = index_.bytes() + arena_.resident(all * layout_.floats * sizeof(float));
  if (layout_.counts_updates) bytes += update_counts_.resident(all * sizeof(std::uint32_t));
  if (layout_.expires) bytes += seen_.resident(all * sizeof(std::uint16_t));
  if (layout_.evicts) bytes += recency_.bytes(all);
  if (layout_.tracks) bytes += changes_.bytes(all);
  if (layout_.savepoints) bytes += savepoints_.bytes(all);
  return bytes;
}

std::uint64_t RowStore::room() const {
  return layout_.evicts ? kRowsMax : layout_.rows_max - std::min(layout_.rows_max, rows());
}

Status RowStore::reserve(std::uint64_t count) {
  PADDLE_TRY_STATUS(index_.reserve(count));
  const std::uint64_t used = rows() * layout_.floats * sizeof(float);
  for (std::uint64_t i = 0; i <= std::min(count / kRowsPerPromotion, kPromotionsMax); ++i) {
    arena_.promote(used);
  }
  const std::uint64_t all = rows() + count;
  PADDLE_TRY_STATUS(arena_.reserve(all * layout_.floats * sizeof(float)));
  if (rows() >= 2 * MemoryRegion::kHugePageBytes) {
    const std::uint64_t ahead = std::min(rows() - MemoryRegion::kHugePageBytes, kAheadMax);
    index_.prepare(ahead);
    arena_.prepare(used, used + ahead);
  }
  if (layout_.expires) PADDLE_TRY_STATUS(seen_.reserve(all * sizeof(std::uint16_t)));
  if (layout_.evicts) PADDLE_TRY_STATUS(recency_.reserve(all));
  if (layout_.tracks) PADDLE_TRY_STATUS(changes_.reserve(all));
  if (layout_.savepoints) PADDLE_TRY_STATUS(savepoints_.reserve(all));
  if (!layout_.counts_updates) return {};
  return update_counts_.reserve(all * sizeof(std::uint32_t));
}

std::uint32_t RowStore::create(std::uint64_t home, std::uint64_t hash, std::uint64_t id) {
  const std::uint32_t number =
      layout_.evicts && rows() >= layout_.rows_max ? evict() : static_cast<std::uint32_t>(rows());
  index_.insert_at(home, hash, number);
  if (layout_.evicts) recency_.push_front(number, id);
  if (layout_.tracks) changes_.on_create(number);
  if (layout_.savepoints) savepoints_.on_create(number);
  if (layout_.shrinks) score(number) = {};
  if (layout_.counts_updates) update_count(number) = 0;
  return number;
}

std::uint32_t RowStore::evict() {
  const std::uint32_t number = recency_.oldest();
  index_.erase(recency_.id_of(number));
  if (layout_.tracks) changes_.on_remove(number, recency_.id_of(number));
  recency_.remove(number);
  ++evicted_;
  return number;
}

Status RowStore::remove(std::span<const std::uint64_t> ids) {
  if (ids.empty()) return {};
  std::vector<std::uint32_t> free;
  for (const std::uint64_t id : ids) {
    const std::uint32_t number = index_.find(id);
    index_.erase(id);
    if (layout_.evicts) recency_.remove(number);
    if (layout_.tracks) changes_.on_remove(number, id);
    if (layout_.savepoints) savepoints_.on_remove(number, id);
    free.push_back(number);
  }
  const std::uint64_t left = rows();
  std::erase_if(free, [&](std::uint32_t number) { return number >= left; });
  index_.for_each([&](std::uint64_t, std::uint32_t& number) {
    if (number < left) return;
    move(number, free.back());
    number = free.back();
    free.pop_back();
  });
  arena_.release_from(left * layout_.floats * sizeof(float));
  return index_.fit();
}

void RowStore::clear() {
  *this = RowStore(layout_, preparer_);
}

void RowStore::track_savepoints() {
  PADDLE_CHECK(rows() == 0);
  // If rows are evicted, a savepoint always copies all of them, in order of recency, and needs no
  // states.
  layout_.savepoints = !layout_.evicts;
}

void RowStore::move(std::uint32_t from, std::uint32_t to) {
  std::copy_n(value(from), layout_.floats, value(to));
  if (layout_.counts_updates) update_count(to) = update_count(from);
  if (layout_.expires) seen(to) = seen(from);
  if (layout_.evicts) recency_.renumber(from, to);
  if (layout_.tracks) changes_.renumber(from, to);
  if (layout_.savepoints) savepoints_.renumber(from, to);
}

// With fewer instructions for each row, the CPU runs more loads at the same time.
void RowStore::load(std::span<const std::uint32_t> numbers) const {
  const float* const first = value(0);
  const std::size_t floats = layout_.floats;
  const std::size_t most = std::min(floats, kLinesFetchedMax * kLineFloats);
  const bool crosses_lines = crosses_lines_;
  for (const std::uint32_t number : numbers) {
    if (number == RowIndex::kNone) continue;
    const float* const row = first + number * floats;
    std::size_t i = 0;
    do {
      load_line(row + i);
      i += kLineFloats;
    } while (i < most);
    if (crosses_lines) load_line(row + most - 1);
  }
}

void RowStore::start_load(std::span<const std::uint32_t> numbers) const {
  for (const std::uint32_t number : numbers) {
    if (number != RowIndex::kNone) prefetch_row(value(number), layout_.floats);
  }
}

}  // namespace paddle::table
