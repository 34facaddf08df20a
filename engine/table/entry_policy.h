// Admission of ids to a table: by the number of sightings, or by a draw made once for each id. Ids
// that are still counted are candidates.
#pragma once

#include <vector>

#include "engine/math/region.h"
#include "engine/table/row_index.h"
#include "proto/parameters.pb.h"

namespace paddle::table {

// Whether tests and predictions read a random value for a row that the table lacks, as training
// does (optim::InitialRows::unseen).
bool draws_unseen(const wire::ParameterSpec& spec);

class EntryPolicy {
 public:
  static constexpr std::uint64_t kBytesBesideIndex = 4;  // a candidate's sightings

  // Whether an id is drawn is a pure function of the id and `stream`, which identifies the table.
  EntryPolicy(const wire::TablePolicy& policy, std::uint64_t stream);

  bool takes_all() const { return takes_all_; }
  std::uint64_t candidates() const { return candidates_.size(); }
  std::uint64_t bytes() const;

  // Called before up to `count` sightings: reserves memory for them.
  Status reserve(std::uint64_t count);
  // Counts a sighting, in pass `pass`, of an id without a row; true if the id gets a row now. Slots
  // are numbered as in TablePolicy.entry; 0 is any other slot.
  bool admits(std::uint64_t id, std::uint16_t pass, std::size_t slot = 0);
  // Removes candidates unseen for `passes` passes or more, where `pass` is the last pass. kResource
  // as RowIndex::fit().
  Status expire(std::uint32_t passes, std::uint16_t pass);

  struct Candidate {
    std::uint64_t id = 0;
    std::uint16_t sightings = 0;
    std::uint16_t seen = 0;  // last pass with a sighting
  };
  void put(const Candidate& candidate);
  // As RowIndex::scan(); candidate() reads an entry.
  void scan(std::uint64_t from, std::uint64_t wanted, std::vector<RowIndex::Entry>& entries) const {
    candidates_.scan(from, wanted, entries);
  }
  Candidate candidate(const RowIndex::Entry& entry) const {
    const Sightings& sightings = sightings_of(entry.number);
    return {entry.id, sightings.count, sightings.seen};
  }
  // Appends about `wanted` candidates in no particular order, as RowIndex::visit_from() does.
  std::uint64_t visit_from(std::uint64_t from, std::uint64_t wanted,
                           std::vector<Candidate>& candidates) const {
    return candidates_.visit_from(from, wanted, [&](std::uint64_t position, std::uint32_t number) {
      candidates.push_back(candidate({position, RowIndex::id_of(position), number}));
    });
  }
  // Removes all candidates. Then `count` others are put in the order of their index.
  Status restart(std::uint64_t count);

 private:
  struct Sightings {
    std::uint16_t count;
    std::uint16_t seen;  // last pass with a sighting
  };
  static_assert(sizeof(Sightings) == kBytesBesideIndex);
  Sightings& sightings_of(std::uint32_t number) const {
    return reinterpret_cast<Sightings*>(sightings_.data())[number];
  }
  void add(const Candidate& candidate);
  void erase(std::uint64_t id, std::uint32_t number);

  struct Terms {
    std::uint32_t count;
    double probability;
  };

  std::vector<Terms> terms_;  // by slot
  std::uint64_t stream_;
  bool takes_all_;
  bool waits_;  // for some slot, an id waits for more sightings
  RowIndex candidates_;
  MemoryRegion sightings_;  // by the candidate's number; for a free number, the next free one
  std::uint32_t free_ = RowIndex::kNone;
  std::uint32_t numbers_ = 0;  // numbers below are in use or free
};

}  // namespace paddle::table
