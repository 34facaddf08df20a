#include "engine/gpu/occurrences.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "engine/math/rows.h"
#include "engine/nn/ids.h"

namespace paddle::nn {
namespace {

// Both visit(begin, end, call) call call(occurrence, row) for the occurrences [begin, end), counted
// in the order of additions.

struct EachInTurn {
  std::span<const std::uint32_t> indices;
  EachIndex which;

  std::size_t size() const { return indices.size() / which.step; }
  template <class Call>
  void visit(std::size_t begin, std::size_t end, Call call) const {
    const std::uint32_t* const rows = indices.data() + which.first;
    for (std::size_t i = begin; i < end; ++i) call(i, rows[i * which.step]);
  }
};

struct GroupByGroup {
  std::span<const std::uint32_t> indices;
  GroupedIndices which;

  std::size_t size() const { return indices.size(); }
  template <class Call>
  void visit(std::size_t begin, std::size_t end, Call call) const {
    const std::size_t lines = indices.size() / which.columns;
    std::size_t done = begin;
    std::size_t line = begin / which.group % std::max<std::size_t>(lines, 1);
    std::size_t first = begin / which.group / std::max<std::size_t>(lines, 1) * which.group;
    std::size_t within = begin % which.group;
    while (done < end) {
      const std::size_t count = std::min(which.group - within, end - done);
      const std::size_t from = line * which.columns + first + within;
      for (std::size_t i = from; i < from + count; ++i) call(i, indices.data()[i]);
      done += count;
      within = 0;
      if (++line < lines) continue;
      line = 0;
      first += which.group;
    }
  }
};

// Counting sort, which keeps the order of equal rows.
template <class Sequence>
void sort_by_row(const Sequence& sequence, std::span<std::uint32_t> starts, std::uint32_t* order) {
  const std::size_t rows = starts.size() - 1;
  std::ranges::fill(starts, 0);
  sequence.visit(0, sequence.size(), [&](std::size_t, std::uint32_t row) {
    if (row == kernels::kNoRow) return;
    PADDLE_CHECK(row < rows);
    ++starts[row + 1];
  });
  // Here starts[r + 1] becomes the first place of row r in `order`. The last step advances it for
  // each occurrence, until it is the place after the row's last one.
  std::uint32_t before = 0;
  for (std::size_t row = 0; row < rows; ++row) before += std::exchange(starts[row + 1], before);
  sequence.visit(0, sequence.size(), [&](std::size_t occurrence, std::uint32_t row) {
    if (row == kernels::kNoRow) return;
    order[starts[row + 1]++] = static_cast<std::uint32_t>(occurrence);
  });
}

// The same for a batch whose order does not fit a core's caches. Occurrences are first sorted into
// buckets of neighbouring rows, each thread those of its part of the sequence. Then each bucket,
// which fits the caches, is sorted by row.
class BucketSort {
 public:
  template <class Sequence>
  static void run(const Sequence& sequence, std::span<std::uint32_t> starts, std::uint32_t* order,
                  OccurrenceMemory& memory, ThreadTeam* team) {
    const std::size_t count = sequence.size();
    const std::size_t rows = starts.size() - 1;
    // An occurrence is packed into 32 bits with the lower bits of its row.
    const auto spare_bits = 32 - static_cast<int>(std::bit_width(count));
    const auto bucket_bits = static_cast<int>(std::bit_width(rows)) - kBucketBits;
    const int row_bits = std::clamp(bucket_bits, 0, spare_bits);
    const std::size_t buckets = (rows >> row_bits) + 1;
    if (count < kManyIds || buckets > kBucketsMax) return sort_by_row(sequence, starts, order);
    memory.packed.resize(count);
    BucketSort sort{starts, order, memory, static_cast<unsigned>(row_bits), buckets};
    memory.places.resize(sort.stride_ * (team == nullptr ? 1 : team->size()));
    for_each_part(team, count, [&](std::size_t part, std::size_t parts) {
      sort.count(sequence, count * part / parts, count * (part + 1) / parts, part);
    });
    sort.find_places();
    for_each_part(team, count, [&](std::size_t part, std::size_t parts) {
      sort.pack(sequence, count * part / parts, count * (part + 1) / parts, part);
    });
    starts[0] = 0;
    for_each_part(team, count,
                  [&](std::size_t part, std::size_t parts) { sort.sort_buckets(part, parts); });
  }

 private:
  static constexpr int kBucketBits = 7;
  static constexpr std::size_t kBucketsMax = 4096;

  BucketSort(std::span<std::uint32_t> starts, std::uint32_t* order, OccurrenceMemory& memory,
             unsigned row_bits, std::size_t buckets)
      : starts_(starts),
        order_(order),
        packed_(memory.packed.data()),
        places_(memory.places),
        row_bits_(row_bits),
        buckets_(buckets),
        stride_((buckets + 63) / 32 * 32) {}

  // Counts a part's occurrences in each bucket.
  template <class Sequence>
  void count(const Sequence& sequence, std::size_t begin, std::size_t end, std::size_t part) {
    const std::size_t rows = starts_.size() - 1;
    std::uint32_t* const counts = places_of(part);
    std::fill_n(counts, buckets_, 0);
    sequence.visit(begin, end, [&](std::size_t, std::uint32_t row) {
      if (row == kernels::kNoRow) return;
      PADDLE_CHECK(row < rows);
      ++counts[row >> row_bits_];
    });
  }

  // Turns counts into the places of the buckets, where a bucket has one part after the other.
  void find_places() {
    std::uint32_t before = 0;
    for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
      for (std::size_t at = bucket; at < places_.size(); at += stride_) {
        before += std::exchange(places_[at], before);
      }
    }
    count_ = before;
  }

  template <class Sequence>
  void pack(const Sequence& sequence, std::size_t begin, std::size_t end, std::size_t part) {
    const std::uint32_t mask = (1U << row_bits_) - 1;
    std::uint32_t* const places = places_of(part);
    sequence.visit(begin, end, [&](std::size_t occurrence, std::uint32_t row) {
      if (row == kernels::kNoRow) return;
      packed_[places[row >> row_bits_]++] =
          (static_cast<std::uint32_t>(occurrence) << row_bits_) | (row & mask);
    });
  }

  // Sorts the buckets that begin in a part of the list.
  void sort_buckets(std::size_t part, std::size_t parts) {
    const std::uint32_t* const ends = places_.data() + places_.size() - stride_;
    for (std::size_t bucket = 0; bucket < buckets_; ++bucket) {
      const std::size_t begin = bucket == 0 ? 0 : ends[bucket - 1];
      const std::size_t owner = count_ == 0 ? 0 : std::min(begin * parts / count_, parts - 1);
      if (owner == part) sort_bucket(bucket, begin, ends[bucket]);
    }
  }

  void sort_bucket(std::size_t bucket, std::size_t begin, std::size_t end) {
    const std::size_t first = bucket << row_bits_;
    const std::size_t last = std::min(first + (std::size_t{1} << row_bits_), starts_.size() - 1);
    const std::uint32_t mask = (1U << row_bits_) - 1;
    std::uint32_t* const next = starts_.data() + 1 + first;  // as in sort_by_row()
    std::fill(next, next + (last - first), 0);
    for (std::size_t i = begin; i < end; ++i) ++next[packed_[i] & mask];
    auto before = static_cast<std::uint32_t>(begin);
    for (std::size_t row = 0; row < last - first; ++row) before += std::exchange(next[row], before);
    for (std::size_t i = begin; i < end; ++i) {
      order_[next[packed_[i] & mask]++] = packed_[i] >> row_bits_;
    }
  }

  std::uint32_t* places_of(std::size_t part) { return places_.data() + part * stride_; }

  std::span<std::uint32_t> starts_;
  std::uint32_t* order_;
  std::uint32_t* packed_;
  std::vector<std::uint32_t>& places_;  // of each bucket in packed_, by part
  unsigned row_bits_;                   // bits of a row that are not the number of its bucket
  std::size_t buckets_;
  std::size_t stride_;     // from part to part: no two threads write to one line of a cache
  std::size_t count_ = 0;  // occurrences
};

}  // namespace

void list_occurrences(std::span<const std::uint32_t> indices, EachIndex in_turn,
                      std::span<std::uint32_t> starts, std::uint32_t* order,
                      OccurrenceMemory& memory, ThreadTeam* team) {
  BucketSort::run(EachInTurn{indices, in_turn}, starts, order, memory, team);
}

void list_occurrences(std::span<const std::uint32_t> indices, GroupedIndices grouped,
                      std::span<std::uint32_t> starts, std::uint32_t* order,
                      OccurrenceMemory& memory, ThreadTeam* team) {
  BucketSort::run(GroupByGroup{indices, grouped}, starts, order, memory, team);
}

void renumber(std::span<std::uint32_t> indices, EachIndex in_turn,
              std::span<const std::uint32_t> numbers, ThreadTeam* team) {
  const std::size_t count = indices.size() / in_turn.step;
  for_each_part(team, count, [&](std::size_t part, std::size_t parts) {
    std::uint32_t* const own = indices.data() + in_turn.first;
    const std::size_t end = count * (part + 1) / parts;
    for (std::size_t i = count * part / parts; i < end; ++i) {
      std::uint32_t& index = own[i * in_turn.step];
      if (index != kernels::kNoRow) index = numbers[index];
    }
  });
}

}  // namespace paddle::nn
