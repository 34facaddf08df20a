// Memory that the ranks of a fake communicator share, in one process or in several of one machine.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "engine/gpu/device.h"

namespace paddle::test {

// A sum that has come so far.
struct SumProgress {
  std::size_t offset = 0;
  bool is_written = false;  // this rank's part of the chunk at the offset
};

class FakeHub {
 public:
  // Ranks can join as long as the descriptor is open.
  static UniqueFd make(device::CommunicatorId& id);
  static Result<std::unique_ptr<FakeHub>> join(const device::CommunicatorId& id, std::uint32_t rank,
                                               std::uint32_t ranks);
  ~FakeHub();
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;

  bool have_all_joined() const;
  // Never waits. True: values are their sums, in the order of ranks.
  bool try_sum(SumProgress& progress, float* values, std::size_t count);

 private:
  struct Shared;
  struct Rank;
  FakeHub(std::byte* memory, std::uint32_t rank, std::uint32_t ranks)
      : memory_(memory), rank_(rank), ranks_(ranks) {}
  Shared& shared() const;
  Rank& rank(std::uint32_t index) const;
  // Whether every rank has taken, or written, so many chunks.
  bool have_all(std::atomic<std::uint64_t> Rank::*chunks, std::uint64_t count) const;

  std::byte* memory_;
  std::uint32_t rank_;
  std::uint32_t ranks_;
};

}  // namespace paddle::test
