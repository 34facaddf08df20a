#include "engine/nn/ids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

namespace paddle::nn {
namespace {

constexpr std::size_t kRadixFrom = 512;  // ids; comparison sort is faster for fewer
constexpr unsigned kDigitBits = 11;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;

// Both memories of TableReads::find() fit a core's second-level cache.
constexpr std::uint64_t kSmallIds = std::uint64_t{1} << 20U;
constexpr unsigned kSeenBits = 17;
constexpr std::size_t kSeen = std::size_t{1} << kSeenBits;
constexpr std::uint64_t kMarksPerId = 16;  // to look through so many takes less than sorting an id
constexpr std::uint64_t kNone = ~std::uint64_t{0};  // an empty place of a hash table

// Radix sort, least significant digit first; skips digits that all ids share.
void radix_sort(std::vector<std::uint64_t>& ids) {
  std::uint64_t varying = 0;
  for (const std::uint64_t id : ids) varying |= id ^ ids.front();
  std::vector<std::uint64_t> sorted(ids.size());
  for (unsigned shift = 0; shift < 64; shift += kDigitBits) {
    if (((varying >> shift) & (kDigits - 1)) == 0) continue;
    std::array<std::size_t, kDigits> starts{};
    for (const std::uint64_t id : ids) ++starts[(id >> shift) & (kDigits - 1)];
    std::size_t next = 0;
    for (std::size_t& start : starts) next += std::exchange(start, next);
    for (const std::uint64_t id : ids) sorted[starts[(id >> shift) & (kDigits - 1)]++] = id;
    ids.swap(sorted);
  }
}

}  // namespace

void sort_unique(std::vector<std::uint64_t>& ids) {
  if (ids.size() < kRadixFrom) {
    std::sort(ids.begin(), ids.end());
  } else {
    radix_sort(ids);
  }
  if (ids.empty()) return;
  // Branchless: a branch would be mispredicted at about every third id.
  std::size_t last = 0;
  std::uint64_t before = ids.front();
  for (const std::uint64_t id : ids) {
    last += static_cast<std::size_t>(id != before);
    ids[last] = before = id;
  }
  ids.resize(last + 1);
}

void TableReads::sort_into(std::vector<std::uint64_t>& ids, ThreadTeam* team) {
  add(own_);
  std::size_t count = 0;
  for (const auto slot : slots_) count += slot.size();
  if (count < kManyIds && !are_below(std::min(kMarksPerId * count, kSmallIds))) {
    // To sort repeats takes less time than to find them.
    ids.clear();
    for (const auto slot : slots_) ids.insert(ids.end(), slot.begin(), slot.end());
    sort_unique(ids);
  } else {
    const std::size_t size = team == nullptr || count < kManyIds ? 1 : team->size();
    parts_.resize(std::max(parts_.size(), size));
    for (Part& part : parts_) part.clear();
    for_each_part(team, count, [&](std::size_t part, std::size_t parts) {
      find(count * part / parts, count * (part + 1) / parts, parts_[part]);
    });
    // Part i takes the ids of part i + step, until part 0 has all.
    for (std::size_t step = 1; step < size; step *= 2) {
      for_each_part(team, count, [&](std::size_t part, std::size_t parts) {
        if (part % (2 * step) != 0 || part + step >= parts) return;
        parts_[part].take(parts_[part + step].ids);
      });
    }
    take_small(ids);
    std::vector<std::uint64_t>& others = parts_[0].ids;
    if (ids.empty()) {
      ids.swap(others);
    } else {
      ids.insert(ids.end(), others.begin(), others.end());
    }
  }
  slots_.clear();
  own_.clear();
}

bool TableReads::are_below(std::uint64_t end) const {
  std::uint64_t largest = 0;
  for (const auto slot : slots_) {
    for (const std::uint64_t id : slot) largest = std::max(largest, id);
  }
  return largest < end;
}

// Small ids, such as those of a dictionary, are marked in an array. Others, such as hashes, go
// through a hash table: open addressing with linear probing. When it is half full it takes no more,
// and ids that it does not have stay repeated. These are rare ones, since an id that occurs often
// occurs early.
void TableReads::find(std::size_t begin, std::size_t end, Part& part) const {
  part.is_read.resize(kSmallIds);
  std::uint8_t* const is_read = part.is_read.data();
  std::uint64_t* seen = nullptr;
  std::uint64_t small_end = 0;
  std::size_t first = 0;  // place of the slot's first id
  for (const auto slot : slots_) {
    const std::size_t from = std::clamp(begin, first, first + slot.size()) - first;
    const std::size_t to = std::clamp(end, first, first + slot.size()) - first;
    first += slot.size();
    for (const std::uint64_t id : slot.subspan(from, to - from)) {
      if (id < kSmallIds) {
        is_read[id] = 1;
        small_end = std::max(small_end, id + 1);
        continue;
      }
      if (seen == nullptr) {
        part.seen.assign(kSeen, kNone);
        seen = part.seen.data();
      }
      std::size_t at = (id * kHashFactor) >> (64U - kSeenBits);
      while (seen[at] != id && seen[at] != kNone) at = (at + 1) % kSeen;
      if (seen[at] == id && id != kNone) continue;
      if (part.ids.size() < kSeen / 2) seen[at] = id;
      part.ids.push_back(id);
    }
  }
  part.small_end = small_end;
  sort_unique(part.ids);
}

void TableReads::take_small(std::vector<std::uint64_t>& ids) {
  ids.clear();
  std::uint64_t end = 0;
  for (const Part& part : parts_) end = std::max(end, part.small_end);
  for (std::uint64_t first = 0; first < end; first += sizeof(std::uint64_t)) {
    std::uint64_t marks = 0;
    for (Part& part : parts_) {
      std::uint64_t own = 0;
      std::memcpy(&own, part.is_read.data() + first, sizeof(own));
      if (own == 0) continue;
      std::memset(part.is_read.data() + first, 0, sizeof(own));
      marks |= own;
    }
    for (; marks != 0; marks &= marks - 1) {  // a mark is one bit, the lowest of its byte
      ids.push_back(first + static_cast<unsigned>(std::countr_zero(marks)) / 8);
    }
  }
}

// The union of two sorted lists. Branchless: a branch would be mispredicted half of the time.
void TableReads::Part::take(std::span<const std::uint64_t> more) {
  merged.resize(ids.size() + more.size());
  std::uint64_t* to = merged.data();
  const std::uint64_t* a = ids.data();
  const std::uint64_t* b = more.data();
  const std::uint64_t* const end_a = a + ids.size();
  const std::uint64_t* const end_b = b + more.size();
  while (a != end_a && b != end_b) {
    const std::uint64_t one = *a;
    const std::uint64_t other = *b;
    *to++ = std::min(one, other);
    a += static_cast<std::ptrdiff_t>(one <= other);
    b += static_cast<std::ptrdiff_t>(other <= one);
  }
  to = std::copy(a, end_a, to);
  to = std::copy(b, end_b, to);
  merged.resize(static_cast<std::size_t>(to - merged.data()));
  ids.swap(merged);
}

std::size_t row_of(std::span<const std::uint64_t> ids, std::uint64_t id) {
  PADDLE_CHECK(!ids.empty());
  // Branchless: a branch would be mispredicted half of the time, and without one the CPU overlaps
  // the searches of several ids.
  const std::uint64_t* first = ids.data();
  for (std::size_t left = ids.size(); left > 1;) {
    const std::size_t half = left / 2;
    first += half & (std::size_t{0} - static_cast<std::size_t>(first[half - 1] < id));
    left -= half;
  }
  PADDLE_CHECK(*first == id);  // the list contains every id of collect_ids()
  return static_cast<std::size_t>(first - ids.data());
}

void RowLookup::build(std::span<const std::uint64_t> ids) {
  PADDLE_CHECK(ids.size() < kFree);
  ids_ = ids;
  const std::size_t size = std::bit_ceil(4 * std::max<std::size_t>(ids.size(), 1));
  first_ = ids.empty() ? 0 : ids.front();
  is_direct_ = !ids.empty() && ids.back() - first_ < size;
  shift_ = 64U - static_cast<unsigned>(std::countr_zero(size));
  rows_.assign(size, kFree);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    std::size_t at = is_direct_ ? ids[row] - first_ : home(ids[row]);
    while (rows_[at] != kFree) at = (at + 1) & (size - 1);
    rows_[at] = static_cast<std::uint32_t>(row);
  }
}

}  // namespace paddle::nn
