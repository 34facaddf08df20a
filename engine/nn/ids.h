// Sorted lists of the ids of a table that a batch reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/pool.h"

namespace paddle::nn {

// Calls work(part, parts) for each part of a work on `items` ids, at the same time on the threads
// of the team. Without a team, and below a number of ids that takes less time than to wake a
// thread, there is one part.
constexpr std::size_t kManyIds = 32768;
template <class Work>
void for_each_part(ThreadTeam* team, std::size_t items, const Work& work) {
  if (team == nullptr || team->size() == 1 || items < kManyIds) return work(0, 1);
  team->run([&](std::size_t part) { work(part, team->size()); });
}

// Multiplicative hashing (Knuth, volume 3, 6.4) takes the upper bits of a product with this factor,
// which spreads ids that lie side by side evenly.
constexpr std::uint64_t kHashFactor = 0x9e3779b97f4a7c15ULL;

// Sorts in ascending order and removes repeats.
void sort_unique(std::vector<std::uint64_t>& ids);
// Index of `id` in `ids`. REQUIRES: `ids` is sorted and contains `id`.
std::size_t row_of(std::span<const std::uint64_t> ids, std::uint64_t id);

// Ids that the layers of a network read from a table for one batch, with repeats. Large batches
// read each of their ids many times. So the threads of a team first take away most repeats, each
// from its part of the ids, before anything is sorted. An object keeps its memory from batch to
// batch.
class TableReads {
 public:
  // Adds the ids of a slot. `ids` must not change until sort_into().
  void add(std::span<const std::uint64_t> ids) { slots_.push_back(ids); }
  // Ids that no slot contains as they are: the caller may append to them.
  std::vector<std::uint64_t>& own() { return own_; }
  // Replaces `ids` by the ids that were added, in ascending order and without repeats; then forgets
  // them. Null: the calling thread works alone. The result does not depend on the team.
  void sort_into(std::vector<std::uint64_t>& ids, ThreadTeam* team);

 private:
  // The ids in the part of one thread. No two threads write to one line of a cache.
  struct alignas(128) Part {
    void clear() {
      small_end = 0;
      ids.clear();
    }
    void take(std::span<const std::uint64_t> more);

    std::vector<std::uint8_t> is_read;  // 1 for each small id that was read
    std::uint64_t small_end = 0;        // above all small ids
    std::vector<std::uint64_t> seen;    // hash table of ids that are in `ids`
    std::vector<std::uint64_t> ids;
    std::vector<std::uint64_t> merged;
  };
  // Whether all ids that were added are below `end`.
  bool are_below(std::uint64_t end) const;
  // Collects the ids of the places [begin, end) of slots_, which lie one after the other.
  void find(std::size_t begin, std::size_t end, Part& part) const;
  // Makes `ids` the small ids of all parts, and clears their marks.
  void take_small(std::vector<std::uint64_t>& ids);

  std::vector<std::span<const std::uint64_t>> slots_;
  std::vector<std::uint64_t> own_;
  std::vector<Part> parts_;  // by thread
};

// Hash table from the ids of a list to their indexes. The list must outlive the table. Ids that lie
// close together, such as those of a dictionary, have places in their own order, without
// collisions.
class RowLookup {
 public:
  // Builds the table for another list, in the memory it has. REQUIRES: the list is sorted, and no
  // id repeats.
  void build(std::span<const std::uint64_t> ids);
  // REQUIRES: the list contains `id`, as it contains every id of collect_ids().
  std::size_t operator()(std::uint64_t id) const {
    // Pointers, because a checked index costs as much as the rest of a call.
    const std::uint32_t* const rows = rows_.data();
    const std::size_t last = rows_.size() - 1;
    if (is_direct_) {
      PADDLE_CHECK(id - first_ <= last);
      const std::uint32_t row = rows[id - first_];
      PADDLE_CHECK(row != kFree);
      return row;
    }
    for (std::size_t at = home(id);; ++at) {
      const std::uint32_t row = rows[at & last];
      PADDLE_CHECK(row != kFree);
      if (ids_.data()[row] == id) return row;
    }
  }

 private:
  static constexpr std::uint32_t kFree = 0xffffffffU;  // an empty slot

  std::size_t home(std::uint64_t id) const { return (id * kHashFactor) >> shift_; }

  std::span<const std::uint64_t> ids_;
  std::vector<std::uint32_t> rows_;  // their number is a power of two, at least 4 * ids_.size()
  std::uint64_t first_ = 0;          // smallest id
  bool is_direct_ = false;           // an id has the place id - first_
  unsigned shift_ = 63;
};

}  // namespace paddle::nn
