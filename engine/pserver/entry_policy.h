// Which ids a table takes in: those seen often enough, and those drawn by chance, once for all.
#pragma once

#include <vector>

#include "engine/pserver/row_index.h"
#include "proto/parameters.pb.h"

namespace paddle::pserver {

class EntryPolicy {
 public:
  // `stream` is the table's: whether an id is drawn is a pure function of it and the id.
  EntryPolicy(const wire::TablePolicy& policy, std::uint64_t stream);

  bool takes_all() const { return takes_all_; }
  std::uint64_t candidates() const { return candidates_.size(); }
  std::uint64_t bytes() const { return candidates_.bytes(); }

  // Before up to `count` sightings.
  Status reserve(std::uint64_t count);
  // Counts a sighting of an id without a row in pass `pass`; true when it gets one now. Slots are
  // numbered as in TablePolicy.entry, 0 is any other.
  bool admits(std::uint64_t id, std::uint16_t pass, std::size_t slot = 0);
  // Forgets candidates unseen for this many passes or more, of which `pass` is the last.
  std::uint64_t expire(std::uint32_t passes, std::uint16_t pass);

  struct Candidate {
    std::uint64_t id = 0;
    std::uint16_t sightings = 0;
    std::uint16_t seen = 0;  // pass
  };
  void put(const Candidate& candidate);
  // As RowIndex::scan; Entry::number is what candidate() reads.
  void scan(std::uint64_t from, std::uint64_t wanted, std::vector<RowIndex::Entry>& entries) const {
    candidates_.scan(from, wanted, entries);
  }
  static Candidate candidate(const RowIndex::Entry& entry) {
    return {entry.id, static_cast<std::uint16_t>(entry.number >> 16U),
            static_cast<std::uint16_t>(entry.number)};
  }

 private:
  static std::uint32_t packed(const Candidate& candidate) {
    return static_cast<std::uint32_t>(candidate.sightings) << 16U | candidate.seen;
  }

  struct Terms {
    std::uint32_t count;
    double probability;
  };

  std::vector<Terms> terms_;  // by slot
  std::uint64_t stream_;
  bool takes_all_;
  bool waits_;                                    // of some slot
  RowIndex candidates_{RowIndex::Numbers::kAny};  // sightings and last pass in one number
};

}  // namespace paddle::pserver
