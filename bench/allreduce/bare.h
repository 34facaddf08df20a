// An all-reduce without a group: the same bytes over the same kinds of streams, but without frames,
// checks and deadlines. It shows how much time a group could still save.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paddle::bench {

// Forks the other ranks, and measures as the other programs do. Returns the exit status.
int measure_bare(std::uint32_t ranks, bool shares_memory, std::size_t bucket_bytes);

}  // namespace paddle::bench
