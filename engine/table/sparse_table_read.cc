// Rows that are read.
#include <algorithm>
#include <array>

#include "engine/memory/copy_row.h"
#include "engine/memory/prefetch.h"
#include "engine/table/sparse_table.h"

namespace paddle::table {
namespace {

// Ids that are treated together: few enough that what is under way for three chunks is not more
// than a core can wait for at once.
constexpr std::size_t kChunk = 16;

struct Chunk {
  std::array<std::uint64_t, kChunk> hashes;
  std::array<std::uint64_t, kChunk> homes;
  std::array<std::uint32_t, kChunk> numbers;
  std::array<std::uint16_t, kChunk> far;  // those that do not lie in their home
  std::size_t far_count = 0;
};

}  // namespace

void SparseTable::read_to_push(std::span<const std::uint64_t> ids, std::span<float> to) {
  if (!entry_.takes_all() || evicts() || ids.size() > LastRead::kIdsMax) return read(ids, to);
  last_read_.index_version = index_.version();
  last_read_.ids.assign(ids.begin(), ids.end());
  last_read_.numbers.resize(ids.size());
  read_plane(0, ids, to, last_read_.numbers.data());
  const auto absent = std::ranges::count(last_read_.numbers, RowIndex::kNone);
  const std::size_t floats = static_cast<std::size_t>(absent) * width_;
  last_read_.first_values.assign(floats > LastRead::kFirstValuesMax ? 0 : floats, 0);
  if (last_read_.first_values.empty()) return;
  float* first_values = last_read_.first_values.data();
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (last_read_.numbers[i] != RowIndex::kNone) continue;
    copy_row(to.data() + i * width_, width_, first_values);
    first_values += width_;
  }
}

void SparseTable::read_plane(std::size_t plane, std::span<const std::uint64_t> ids,
                             std::span<float> to, std::uint32_t* numbers) const {
  PADDLE_CHECK(to.size() == ids.size() * width_);
  if (!parallel_) return read_part(plane, ids, to.data(), numbers);
  for_blocks(ids.size(), [&](std::size_t begin, std::size_t count) {
    read_part(plane, ids.subspan(begin, count), to.data() + begin * width_,
              numbers == nullptr ? nullptr : numbers + begin);
  });
}

void SparseTable::fill_absent(std::span<const optim::InitialRows::Row> absent) const {
  if (entry_.takes_all()) return initial_.fill(absent);
  for (const optim::InitialRows::Row& row : absent) std::fill_n(row.to, width_, 0.0F);
}

// While one chunk's homes are fetched, the one before is looked up and its rows are fetched, the
// few of the one before that which lie behind their homes are found, and the rows of the first are
// copied. Those few take no branch of their own, since a wrong guess throws away what follows it.
// Calls of the steps would take 2 ns a row.
void SparseTable::read_part(std::size_t plane, std::span<const std::uint64_t> ids, float* to,
                            std::uint32_t* numbers) const {
  std::array<optim::InitialRows::Row, kBlock> absent;
  std::size_t absent_count = 0;
  const auto add_absent = [&](std::uint64_t id, float* at) {
    absent[absent_count++] = {id, at};
    if (absent_count < absent.size()) return;
    fill_absent(absent);
    absent_count = 0;
  };
  if (rows() == 0) {
    if (numbers != nullptr) std::fill_n(numbers, ids.size(), RowIndex::kNone);
    for (std::size_t i = 0; i < ids.size(); ++i) add_absent(ids[i], to + i * width_);
    return fill_absent(std::span(absent).first(absent_count));
  }
  const auto fetch_row = [&](std::uint32_t number) __attribute__((always_inline)) {
    const float* const data = row_data(number) + plane * width_;
    const std::size_t most = std::min(width_, kLinesTouchedMax * kLineFloats);
    for (std::size_t i = 0; i < most; i += kLineFloats) prefetch(data + i);
    if (crosses_lines_) prefetch(data + most - 1);
  };
  std::array<Chunk, 4> chunks;
  const std::size_t count = (ids.size() + kChunk - 1) / kChunk;
  for (std::size_t turn = 0; turn < count + 3; ++turn) {
    Chunk& fetched = chunks[turn % 4];
    Chunk& looked_up = chunks[(turn + 3) % 4];
    Chunk& resolved = chunks[(turn + 2) % 4];
    const Chunk& copied = chunks[(turn + 1) % 4];
    const auto fetch = [&](std::size_t i) __attribute__((always_inline)) {
      fetched.hashes[i] = RowIndex::hash_of(ids[turn * kChunk + i]);
      fetched.homes[i] = index_.home(fetched.hashes[i]);
      index_.prefetch_home(fetched.homes[i]);
    };
    std::size_t far = 0;
    const auto look_up = [&](std::size_t i) __attribute__((always_inline)) {
      const std::uint32_t number = index_.find_home(looked_up.homes[i], looked_up.hashes[i]);
      const auto is_absent = static_cast<std::uint32_t>(number == RowIndex::kNone);
      looked_up.numbers[i] = number;
      looked_up.far[far] = static_cast<std::uint16_t>(i);
      far += is_absent & static_cast<std::uint32_t>(index_.goes_behind(looked_up.homes[i]));
      fetch_row(number & (is_absent - 1));
    };
    const auto copy = [&](std::size_t i) __attribute__((always_inline)) {
      const std::size_t at = (turn - 3) * kChunk + i;
      const std::uint32_t number = copied.numbers[i];
      if (numbers != nullptr) numbers[at] = number;
      if (number == RowIndex::kNone) {
        add_absent(ids[at], to + at * width_);
      } else {
        copy_row(row_data(number) + plane * width_, width_, to + at * width_);
      }
    };
    if (turn >= 3 && (turn + 1) * kChunk <= ids.size()) {
      for (std::size_t i = 0; i < kChunk; ++i) {
        fetch(i);
        look_up(i);
        copy(i);
      }
    } else {
      const auto each = [&](std::size_t chunks_ago, const auto& step) {
        if (turn < chunks_ago || turn - chunks_ago >= count) return;
        const std::size_t begin = (turn - chunks_ago) * kChunk;
        for (std::size_t i = 0; i < std::min(kChunk, ids.size() - begin); ++i) step(i);
      };
      each(0, fetch);
      each(1, look_up);
      each(3, copy);
    }
    looked_up.far_count = far;
    for (std::size_t i = 0; i < far; ++i) {
      index_.prefetch_behind(looked_up.homes[looked_up.far[i]]);
    }
    for (std::size_t i = 0; i < resolved.far_count; ++i) {
      const std::size_t at = resolved.far[i];
      const std::uint32_t number = index_.find_behind(resolved.homes[at], resolved.hashes[at]);
      resolved.numbers[at] = number;
      if (number != RowIndex::kNone) fetch_row(number);
    }
  }
  fill_absent(std::span(absent).first(absent_count));
}

}  // namespace paddle::table
