#include "engine/table/sparse_table.h"

#include <algorithm>
#include <array>
#include <span>

#include <fmt/format.h>

#include "engine/math/initial.h"
#include "engine/math/row_access.h"
#include "engine/table/row_store.h"

namespace paddle::table {
namespace {

// Reads rows by id. The lookups are pipelined so that the memory of many ids is fetched at once.
class RowReader {
 public:
  // An absent row reads as its initial value, or as 0 if `initial` is null.
  RowReader(const RowStore& rows, const optim::InitialRows* initial)
      : rows_(rows), initial_(initial) {}

  // Plane 0 is the values, 1..state_width the state. Writes the ids' row numbers to `numbers`,
  // unless it is null, with RowIndex::kNone for absent ones.
  void read(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
            std::uint32_t* numbers) const;

 private:
  class AbsentRows;
  void read_some(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
                 std::uint32_t* numbers) const;

  const RowStore& rows_;
  const optim::InitialRows* initial_;
};

// Ids that are processed together: few enough that a core can wait for the fetches of three chunks
// at the same time.
constexpr std::size_t kChunk = 16;
constexpr std::size_t kTurns = 3;  // turns from a chunk's first step to its last

struct Chunk {
  std::array<std::uint64_t, kChunk> hashes;
  std::array<std::uint64_t, kChunk> homes;
  std::array<std::uint32_t, kChunk> numbers;
  std::array<std::uint16_t, kChunk> overflowed;  // ids that do not lie in their home
  std::size_t overflowed_count = 0;
};

// Runs one turn of a pipeline over `count` ids: fetch for the chunk of this turn, look_up for the
// previous chunk, and copy for the chunk kTurns before. Always inlined, since calls would take 2 ns
// a row.
template <class Fetch, class LookUp, class Copy>
[[gnu::always_inline]] inline void run_turn(std::size_t turn, std::size_t count, const Fetch& fetch,
                                            const LookUp& look_up, const Copy& copy) {
  if (turn >= kTurns && (turn + 1) * kChunk <= count) {
    for (std::size_t i = 0; i < kChunk; ++i) {
      fetch(i);
      look_up(i);
      copy(i);
    }
    return;
  }
  const auto each = [&](std::size_t turns_ago, const auto& step) {
    if (turn < turns_ago || (turn - turns_ago) * kChunk >= count) return;
    const std::size_t begin = (turn - turns_ago) * kChunk;
    for (std::size_t i = 0; i < std::min(kChunk, count - begin); ++i) step(i);
  };
  each(0, fetch);
  each(1, look_up);
  each(kTurns, copy);
}

// Collects absent rows of a read, and fills many of them at once.
class RowReader::AbsentRows {
 public:
  explicit AbsentRows(const RowReader& reader) : reader_(reader) {}

  void add(std::uint64_t id, float* to) {
    rows_[count_++] = {id, to};
    if (count_ == rows_.size()) fill();
  }
  void fill() {
    const auto rows = std::span<const optim::InitialRows::Row>(rows_).first(count_);
    count_ = 0;
    if (reader_.initial_ != nullptr) return reader_.initial_->fill(rows);
    for (const auto& row : rows) std::fill_n(row.to, reader_.rows_.layout().width, 0.0F);
  }

 private:
  static constexpr std::size_t kRows = 512;
  const RowReader& reader_;
  std::array<optim::InitialRows::Row, kRows> rows_;
  std::size_t count_ = 0;
};

void RowReader::read(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
                     std::uint32_t* numbers) const {
  if (rows_.rows() > 0) return read_some(plane, ids, to, numbers);
  if (numbers != nullptr) std::fill_n(numbers, ids.size(), RowIndex::kNone);
  AbsentRows absent(*this);
  for (std::size_t i = 0; i < ids.size(); ++i) absent.add(ids[i], to + i * rows_.layout().width);
  absent.fill();
}

// While the homes of one chunk are fetched, the previous chunk is looked up and its rows are
// fetched; in the chunk before that, the few ids that overflowed their homes are found; and the
// rows of the oldest chunk are copied. The few ids take no branch of their own: a misprediction
// would throw away the work that follows it.
void RowReader::read_some(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
                          std::uint32_t* numbers) const {
  const RowIndex& index = rows_.index();
  const std::size_t width = rows_.layout().width;
  AbsentRows absent(*this);
  const auto fetch_row = [&](std::uint32_t number) __attribute__((always_inline)) {
    rows_.prefetch_row(rows_.value(number) + plane * width, width);
  };
  std::array<Chunk, kTurns + 1> chunks;
  const std::size_t turns = (ids.size() + kChunk - 1) / kChunk + kTurns;
  for (std::size_t turn = 0; turn < turns; ++turn) {
    Chunk& fetched = chunks[turn % 4];
    Chunk& looked_up = chunks[(turn + 3) % 4];
    Chunk& resolved = chunks[(turn + 2) % 4];
    const Chunk& copied = chunks[(turn + 1) % 4];
    const auto fetch = [&](std::size_t i) __attribute__((always_inline)) {
      fetched.hashes[i] = RowIndex::hash_of(ids[turn * kChunk + i]);
      fetched.homes[i] = index.home(fetched.hashes[i]);
      index.prefetch_home(fetched.homes[i]);
    };
    std::size_t overflowed = 0;
    const auto look_up = [&](std::size_t i) __attribute__((always_inline)) {
      const std::uint32_t number = index.find_home(looked_up.homes[i], looked_up.hashes[i]);
      const auto is_absent = static_cast<std::uint32_t>(number == RowIndex::kNone);
      looked_up.numbers[i] = number;
      looked_up.overflowed[overflowed] = static_cast<std::uint16_t>(i);
      overflowed += is_absent & static_cast<std::uint32_t>(index.overflows(looked_up.homes[i]));
      fetch_row(number & (is_absent - 1));
    };
    const auto copy = [&](std::size_t i) __attribute__((always_inline)) {
      const std::size_t at = (turn - kTurns) * kChunk + i;
      const std::uint32_t number = copied.numbers[i];
      if (numbers != nullptr) numbers[at] = number;
      if (number == RowIndex::kNone) {
        absent.add(ids[at], to + at * width);
      } else {
        copy_row(rows_.value(number) + plane * width, width, to + at * width);
      }
    };
    run_turn(turn, ids.size(), fetch, look_up, copy);
    looked_up.overflowed_count = overflowed;
    for (std::size_t i = 0; i < overflowed; ++i) {
      index.prefetch_overflow(looked_up.homes[looked_up.overflowed[i]]);
    }
    for (std::size_t i = 0; i < resolved.overflowed_count; ++i) {
      const std::size_t at = resolved.overflowed[i];
      const std::uint32_t number = index.find_overflow(resolved.homes[at], resolved.hashes[at]);
      resolved.numbers[at] = number;
      if (number != RowIndex::kNone) fetch_row(number);
    }
  }
  absent.fill();
}

// Increments, but stays at the largest value: so many updates count as infinitely many.
std::uint32_t increment(std::uint32_t& count) {
  if (count < std::numeric_limits<std::uint32_t>::max()) ++count;
  return count;
}

}  // namespace

SparseTable::SparseTable(const wire::ParameterSet& set, std::uint32_t index, Parallel parallel,
                         MemoryPreparer* preparer)
    : spec_(set.parameters(static_cast<int>(index))),
      notes_(spec_.table()),
      initial_(spec_, set.seed(), RowLayout(set, spec_).width),
      unseen_(optim::InitialRows::unseen(spec_, set.seed(), RowLayout(set, spec_).width)),
      rule_(set.optimizer(), spec_),
      parallel_(std::move(parallel)),
      rows_(RowLayout(set, spec_), preparer),
      entry_(spec_.table(), hash_combine(set.seed(), stable_hash(spec_.name()))) {}

void SparseTable::read_to_push(std::span<const std::uint64_t> ids, std::span<float> to) {
  if (!entry_.takes_all() || rows_.layout().evicts || ids.size() > LookupCache::kIdsMax) {
    return read(ids, to);
  }
  read_plane(0, ids, to, cache_.start(rows_.index().version(), ids), initial_);
  cache_.keep_first_values(to, width());
}

void SparseTable::read_plane(std::size_t plane, std::span<const std::uint64_t> ids,
                             std::span<float> to, std::uint32_t* numbers,
                             const optim::InitialRows& absent) const {
  PADDLE_CHECK(to.size() == ids.size() * width());
  const RowReader reader(rows_, entry_.takes_all() ? &absent : nullptr);
  if (!parallel_) return reader.read(plane, ids, to.data(), numbers);
  for_blocks(ids.size(), [&](std::size_t begin, std::size_t count) {
    reader.read(plane, ids.subspan(begin, count), to.data() + begin * width(),
                numbers == nullptr ? nullptr : numbers + begin);
  });
}

std::uint64_t SparseTable::count_absent(std::span<const std::uint64_t> ids) const {
  if (rows() == 0) return ids.size();
  return static_cast<std::uint64_t>(std::count_if(ids.begin(), ids.end(), [this](std::uint64_t id) {
    return rows_.index().find(id) == RowIndex::kNone;
  }));
}

Status SparseTable::reserve(std::uint64_t count) {
  if (count > RowStore::kRowsMax - rows()) {
    return Error{Errc::kResource,
                 fmt::format("table '{}' would hold more than {} rows on one port", spec_.name(),
                             RowStore::kRowsMax),
                 "use more pservers or ports_num_for_sparse"};
  }
  PADDLE_TRY_STATUS(rows_.reserve(count));
  if (entry_.takes_all()) return {};
  PADDLE_TRY_STATUS(zeros_.reserve(rows_.layout().floats * sizeof(float)));
  return entry_.reserve(count);
}

bool SparseTable::apply(float learning_rate, std::span<const std::uint64_t> ids,
                        std::span<const float> gradients) {
  PADDLE_CHECK(gradients.size() == ids.size() * push_width());
  if (rule_.is_static()) return true;
  LookupCache::Cursor cursor = cache_.cursor();
  LookupCache::Cursor* const cached =
      cache_.is_of(rows_.index().version(), ids) ? &cursor : nullptr;
  // If rows are evicted, only one block at a time: no row of a block may be evicted for another row
  // that it creates.
  const bool is_single = !parallel_ || rows_.layout().evicts;
  const std::size_t together = (is_single ? 1 : kBlocksTogether) * Block::kIds;
  blocks_.resize(together / Block::kIds);
  bool is_finite = true;
  for (std::size_t begin = 0; begin < ids.size(); begin += together) {
    const std::size_t count = std::min(together, ids.size() - begin);
    is_finite &=
        apply_blocks(learning_rate, ids.subspan(begin, count),
                     gradients.subspan(begin * push_width(), count * push_width()), cached);
  }
  cache_ = {};  // between batches, a table uses no more memory than its rows need
  return is_finite;
}

// Only the creation of rows, which numbers them, runs in order and on one thread.
bool SparseTable::apply_blocks(float learning_rate, std::span<const std::uint64_t> ids,
                               std::span<const float> gradients, LookupCache::Cursor* cached) {
  rows_.index().make_room(ids.size());
  for_blocks(ids.size(), [&](std::size_t begin, std::size_t count) {
    Block& block = blocks_[begin / Block::kIds];
    const auto own = ids.subspan(begin, count);
    if (cached == nullptr) {
      block.find(rows_.index(), own);
    } else {
      block.recall(rows_.index(), own, cached->numbers + begin);
    }
  });
  for (std::size_t begin = 0; begin < ids.size(); begin += Block::kIds) {
    Block& block = blocks_[begin / Block::kIds];
    create_missing(ids.subspan(begin, std::min(Block::kIds, ids.size() - begin)),
                   gradients.data() + begin * push_width(), block);
    if (cached == nullptr || cached->first_values == nullptr) continue;
    block.first_values = cached->first_values;
    cached->first_values += block.new_count * width();
  }
  if (cached != nullptr) cached->numbers += ids.size();
  std::atomic<bool> is_finite = true;
  for_blocks(ids.size(), [&](std::size_t begin, std::size_t count) {
    const float* const own = gradients.data() + begin * push_width();
    if (!update(learning_rate, ids.subspan(begin, count), own, blocks_[begin / Block::kIds])) {
      is_finite = false;
    }
  });
  return is_finite;
}

void SparseTable::create_missing(std::span<const std::uint64_t> ids, const float* gradients,
                                 Block& block) {
  std::size_t missing = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    block.new_ids[missing] = static_cast<std::uint16_t>(i);
    missing += static_cast<std::size_t>(block.numbers[i] == RowIndex::kNone);
  }
  for (std::size_t i = 0; i < missing; ++i) rows_.index().load_room(block.homes[block.new_ids[i]]);
  // Done before any row is created, so that no row of the block is evicted for another.
  for (std::size_t i = 0; rows_.layout().evicts && i < ids.size(); ++i) {
    if (block.numbers[i] != RowIndex::kNone) rows_.recency().move_to_front(block.numbers[i]);
  }
  block.new_count = 0;
  block.first_values = nullptr;
  for (std::size_t i = 0; i < missing; ++i) {
    const std::uint16_t at = block.new_ids[i];
    const float* const notes = gradients + at * push_width() + width();
    if (!entry_.takes_all() && !entry_.admits(ids[at], pass_, notes_.slot(notes))) continue;
    block.numbers[at] = rows_.create(block.homes[at], block.hashes[at], ids[at]);
    block.new_ids[block.new_count++] = at;
  }
  rows_.populate();
  const auto numbers = std::span(block.numbers).first(ids.size());
  if (rows_.layout().savepoints) savepoint_.before_update(rows_, ids, numbers);
  mark_rows(numbers, gradients);
}

void SparseTable::mark_rows(std::span<const std::uint32_t> numbers, const float* gradients) {
  const RowLayout& layout = rows_.layout();
  if (!layout.expires && !layout.tracks && !layout.shrinks) return;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] == RowIndex::kNone) continue;
    if (layout.expires) rows_.seen(numbers[i]) = pass_;
    if (layout.tracks) rows_.changes().on_update(numbers[i]);
    if (!layout.shrinks) continue;
    const float* const notes = gradients + i * push_width() + layout.width;
    rows_.score(numbers[i]).shows += notes[0];
    rows_.score(numbers[i]).clicks += notes[1];
  }
}

void SparseTable::start_rows(std::span<const std::uint64_t> ids, const Block& block) const {
  std::array<optim::InitialRows::Row, Block::kIds> rows;
  for (std::size_t i = 0; i < block.new_count; ++i) {
    const std::size_t at = block.new_ids[i];
    rows[i] = {ids[at], rows_.value(block.numbers[at])};
    if (block.first_values == nullptr) continue;
    copy_row(block.first_values + i * width(), width(), rows[i].to);
  }
  const auto created = std::span(rows).first(block.new_count);
  if (block.first_values == nullptr) initial_.fill(created);
  for (std::size_t i = 0; state_width() > 0 && i < created.size(); ++i) {
    rule_.start({rows[i].to, width()}, {rows[i].to + width(), state_width() * width()});
  }
}

// Short rows are loaded many at a time. Wide ones are fetched while the few before them are
// updated: their lines are more than a core can wait for at once, and would leave the first-level
// cache.
bool SparseTable::update(float learning_rate, std::span<const std::uint64_t> ids,
                         const float* gradients, const Block& block) {
  constexpr std::size_t kWideBytes = 256;
  constexpr std::size_t kFetchedBytes = 1024;
  start_rows(ids, block);
  const std::size_t width = this->width();
  const std::size_t push_width = this->push_width();
  const std::size_t row_bytes = rows_.layout().floats * sizeof(float);
  const bool is_wide = row_bytes >= kWideBytes;
  const std::size_t run = is_wide ? std::max<std::size_t>(kFetchedBytes / row_bytes, 1) : kRun;
  const auto run_from = [&](std::size_t begin) {
    begin = std::min(begin, ids.size());
    return std::span(block.numbers).subspan(begin, std::min(run, ids.size() - begin));
  };
  std::array<optim::Elements, kRun> updates;
  bool is_finite = true;
  if (is_wide) rows_.load(run_from(0));
  for (std::size_t begin = 0; begin < ids.size(); begin += run) {
    if (is_wide) {
      rows_.start_load(run_from(begin + run));
    } else {
      rows_.load(run_from(begin));
    }
    std::size_t pending = 0;
    for (std::size_t i = begin; i < std::min(begin + run, ids.size()); ++i) {
      const std::uint32_t number = block.numbers[i];
      if (number == RowIndex::kNone) continue;
      float* const value = rows_.value(number);
      updates[pending] = {width, value, gradients + i * push_width, value + width, width};
      if (rows_.layout().counts_updates) {
        is_finite &= rule_.apply(learning_rate, increment(rows_.update_count(number)),
                                 {&updates[pending], 1});
      } else {
        ++pending;
      }
    }
    if (pending > 0) is_finite &= rule_.apply(learning_rate, 1, {updates.data(), pending});
  }
  return is_finite;
}

Result<std::uint64_t> SparseTable::end_pass() {
  std::uint64_t expired = 0;
  if (rows_.layout().expires) {
    PADDLE_TRY(expired, expire());
  }
  if (rows_.layout().shrinks) PADDLE_TRY_STATUS(shrink());
  return expired;
}

Status SparseTable::shrink() {
  const wire::ShrinkPolicy& policy = spec_.table().shrink();
  std::vector<std::uint64_t> low;
  if (rows_.layout().savepoints) savepoint_.before_change(rows_);
  rows_.index().for_each([&](std::uint64_t id, std::uint32_t number) {
    rows_.score(number).decay(policy.decay());
    if (rows_.score(number).value(policy) < policy.threshold()) low.push_back(id);
  });
  shrunk_ += low.size();
  return rows_.remove(low);
}

Result<std::uint64_t> SparseTable::expire() {
  const std::uint32_t passes = spec_.table().expire_passes();
  ++pass_;
  std::vector<std::uint64_t> unseen;
  rows_.index().for_each([&](std::uint64_t id, std::uint32_t number) {
    // A row seen in the pass that just ended is one pass old now.
    if (static_cast<std::uint16_t>(pass_ - rows_.seen(number)) > passes) unseen.push_back(id);
  });
  if (rows_.layout().savepoints) savepoint_.before_remove(rows_, unseen);
  PADDLE_TRY_STATUS(rows_.remove(unseen));
  PADDLE_TRY_STATUS(entry_.expire(passes + 1, pass_));
  return unseen.size();
}

bool SparseTable::put(const Row& row) {
  PADDLE_CHECK(row.value.size() == width() && row.state.size() == state_width() * width());
  const RowLayout& layout = rows_.layout();
  const auto seen_in = static_cast<std::uint16_t>(pass_ - row.marks.passes_unseen);
  if (row.marks.sightings > 0) {
    entry_.put({row.id, row.marks.sightings, seen_in});
    return true;
  }
  RowIndex& index = rows_.index();
  index.make_room(1);
  const std::uint64_t hash = RowIndex::hash_of(row.id);
  const std::uint64_t home = index.home(hash);
  std::uint32_t number = index.find_at(home, hash);
  if (number == RowIndex::kNone) {
    number = rows_.create(home, hash, row.id);
    rows_.populate();
  } else if (!std::equal(row.value.begin(), row.value.end(), rows_.value(number)) ||
             !std::equal(row.state.begin(), row.state.end(), rows_.state(number))) {
    return false;
  }
  if (layout.savepoints) savepoint_.before_update(rows_, {&row.id, 1}, {&number, 1});
  std::ranges::copy(row.value, rows_.value(number));
  std::ranges::copy(row.state, rows_.state(number));
  if (layout.counts_updates) rows_.update_count(number) = row.marks.updates;
  if (layout.expires) rows_.seen(number) = seen_in;
  if (layout.shrinks) rows_.score(number) = row.score;
  if (layout.tracks) rows_.changes().on_update(number);
  return true;
}

Row SparseTable::row(const RowIndex::Entry& entry) const {
  const RowLayout& layout = rows_.layout();
  Row row{entry.id,
          {},
          {rows_.value(entry.number), layout.width},
          {rows_.state(entry.number), layout.state_width * layout.width},
          {}};
  if (layout.shrinks) row.score = rows_.score(entry.number);
  if (layout.counts_updates) row.marks.updates = rows_.update_count(entry.number);
  if (layout.expires) {
    row.marks.passes_unseen = static_cast<std::uint16_t>(pass_ - rows_.seen(entry.number));
  }
  return row;
}

Row SparseTable::candidate(const RowIndex::Entry& entry) const {
  const EntryPolicy::Candidate waiting = entry_.candidate(entry);
  const auto* const zeros = reinterpret_cast<const float*>(zeros_.data());
  return {waiting.id,
          {0, static_cast<std::uint16_t>(pass_ - waiting.seen), waiting.sightings},
          {zeros, width()},
          {zeros + width(), state_width() * width()},
          {}};
}

// Savepoints, and restoring the table from them.

void SparseTable::track_savepoints() {
  rows_.track_savepoints();
}

void SparseTable::begin_savepoint(bool is_full) {
  PADDLE_CHECK(rows_.layout().savepoints || rows_.layout().evicts);
  savepoint_.begin(rows_, entry_, pass_, is_full);
}

std::optional<Bytes> SparseTable::take_savepoint(std::uint64_t bytes_max) {
  return savepoint_.take(rows_, bytes_max);
}

void SparseTable::end_savepoint() {
  PADDLE_CHECK(!is_making_savepoint());
  rows_.savepoints().end();
}

Status SparseTable::restore_savepoint(ByteSpan bytes) {
  auto part = SavepointPart::read(bytes, form());
  if (!part) {
    return std::move(part).error().with(fmt::format("restoring table '{}'", spec_.name()));
  }
  PADDLE_CHECK(!is_making_savepoint());
  cache_ = {};
  switch (part->kind) {
    case SavepointPart::Kind::kStart:
      return restore_start(*part);
    case SavepointPart::Kind::kRemoved:
      return restore_removed(*part);
    case SavepointPart::Kind::kCandidates:
      PADDLE_TRY_STATUS(reserve(part->count));
      restore_candidates(*part);
      return {};
    case SavepointPart::Kind::kRows:
      PADDLE_TRY_STATUS(reserve(part->count));
      restore_rows(*part);
      return {};
  }
  return {};
}

Status SparseTable::restore_start(const SavepointPart& part) {
  if (part.is_full() && rows() > 0) rows_.clear();
  pass_ = part.pass();
  restored_rows_ = part.count;
  // Rows arrive in the order of the index. If it had to grow meanwhile, its first homes would
  // overflow.
  const std::uint64_t more = part.count - std::min(part.count, rows());
  PADDLE_TRY_STATUS(reserve(more));
  rows_.index().make_room(more);
  return entry_.restart(part.candidates());
}

Status SparseTable::restore_removed(const SavepointPart& part) {
  std::vector<std::uint64_t> ids;
  for (std::uint64_t i = 0; i < part.count && rows() > 0; ++i) {
    if (rows_.index().find(part.id(i)) != RowIndex::kNone) ids.push_back(part.id(i));
  }
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  if (rows_.layout().savepoints) savepoint_.before_remove(rows_, ids);
  PADDLE_TRY_STATUS(rows_.remove(ids));
  rows_.savepoints().forget_removed();
  return {};
}

void SparseTable::restore_candidates(const SavepointPart& part) {
  for (std::uint64_t i = 0; i < part.count; ++i) entry_.put(part.candidate(i));
}

void SparseTable::restore_rows(const SavepointPart& part) {
  const std::uint64_t bytes = form().bytes();
  for (std::uint64_t begin = 0; begin < part.count; begin += LookupBlock::kIds) {
    const std::uint64_t end = std::min<std::uint64_t>(begin + LookupBlock::kIds, part.count);
    rows_.index().make_room(end - begin);
    for (std::uint64_t i = begin; i < end; ++i) {
      const std::uint64_t id = RowForm::id_at(part.body.data() + i * bytes);
      rows_.index().prefetch_home(rows_.index().home(RowIndex::hash_of(id)));
    }
    for (std::uint64_t i = begin; i < end; ++i) restore_row(part.body.data() + i * bytes);
  }
}

void SparseTable::restore_row(const std::byte* from) {
  const RowLayout& layout = rows_.layout();
  const std::uint64_t id = RowForm::id_at(from);
  const std::uint64_t marks = RowForm::marks_at(from);
  const std::uint64_t hash = RowIndex::hash_of(id);
  const std::uint64_t home = rows_.index().home(hash);
  std::uint32_t number = rows_.index().find_at(home, hash);
  if (number == RowIndex::kNone) {
    number = rows_.create(home, hash, id);
    rows_.populate();
  } else if (layout.evicts) {
    rows_.recency().move_to_front(number);
  }
  std::memcpy(rows_.value(number), from + RowForm::kHeadBytes, layout.floats * sizeof(float));
  if (layout.counts_updates) rows_.update_count(number) = static_cast<std::uint32_t>(marks);
  if (layout.expires) rows_.seen(number) = static_cast<std::uint16_t>(marks >> 32U);
  if (layout.tracks) rows_.changes().on_update(number);
  if (layout.savepoints) rows_.savepoints().on_restore(number);
}

Status SparseTable::check_restored() const {
  if (rows() == restored_rows_) return {};
  return Error{
      Errc::kData,
      fmt::format("table '{}' has {} rows after it was restored, but had {} at its savepoint",
                  spec_.name(), rows(), restored_rows_),
      "remove the damaged savepoint, so that the job continues from the previous one"};
}

}  // namespace paddle::table
