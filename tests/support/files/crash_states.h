// States of a file system after a loss of power: what was synced is there; of the rest, any part.
#pragma once

#include <functional>

#include "tests/support/files/memory_files.h"

namespace paddle::test {

constexpr std::size_t kDiskBlockBytes = 128;

// Calls `visit` with states that a crash after the first `end` operations of `files` may leave:
//
// - Each change of names that was not synced, of which a rename or exchange is one, happened or
//   did not. Every directory that it touches must have been synced since.
// - Data that was not synced is there, cut off at a block, or zero up to a block. A sync that has
//   failed saves nothing for ever.
//
// It visits all such states, or `most` of them chosen by `seed`, with the two extremes among them.
void visit_crash_states(const MemoryFiles& files, std::size_t end, std::size_t most,
                        std::uint64_t seed, const std::function<void(const Tree&)>& visit);

}  // namespace paddle::test
