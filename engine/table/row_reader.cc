#include "engine/table/row_reader.h"

#include <algorithm>
#include <array>

#include "engine/memory/copy_row.h"
#include "engine/memory/prefetch.h"

namespace paddle::table {
namespace {

// Ids that are treated together: few enough that the fetches under way for three chunks are no more
// than a core can wait for at once.
constexpr std::size_t kChunk = 16;
constexpr std::size_t kTurns = 3;  // from a chunk's first step to its last

struct Chunk {
  std::array<std::uint64_t, kChunk> hashes;
  std::array<std::uint64_t, kChunk> homes;
  std::array<std::uint32_t, kChunk> numbers;
  std::array<std::uint16_t, kChunk> overflowed;  // those that do not lie in their home
  std::size_t overflowed_count = 0;
};

// Of `count` ids, the steps of one turn: fetch for its chunk, look_up for the one before it, and
// copy for the one kTurns before it. Calls of the steps would take 2 ns a row.
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

}  // namespace

// Absent rows of a read, filled many at once.
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

// While one chunk's homes are fetched, the one before is looked up and its rows are fetched, the
// few ids of the one before that which overflowed their homes are found, and the rows of the first
// are copied. Those few take no branch of their own: a misprediction would throw away the work that
// follows it.
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

}  // namespace paddle::table
