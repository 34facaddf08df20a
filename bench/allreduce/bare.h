// The same sums without a group: the same bytes over the same kinds of streams, but no frames, no
// checks, no deadlines. A measurement of what is left for a group to save.
#pragma once

#include <cstddef>
#include <cstdint>

namespace paddle::bench {

// Forks the other ranks, and measures as the other programs do. The exit status.
int measure_bare(std::uint32_t ranks, bool shares_memory, std::size_t bucket_bytes);

}  // namespace paddle::bench
