// The hash of a row's id in an index, a bijection: the id follows from it.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace paddle::table {

constexpr std::uint64_t kHashSpread = 0x9e3779b97f4a7c15ULL;  // also the increment of mix64

// Ids of one shard share a remainder of mix64(id); the product's upper bits depend on all others.
inline std::uint64_t hash_of_id(std::uint64_t id) {
  return mix64(id) * kHashSpread;
}

constexpr std::uint64_t inverse(std::uint64_t odd) {
  std::uint64_t x = odd;  // right in the last 3 bits; each step doubles that
  for (int i = 0; i < 5; ++i) x *= 2 - odd * x;
  return x;
}

constexpr std::uint64_t unshift(std::uint64_t x, unsigned by) {
  std::uint64_t result = x;
  for (unsigned done = by; done < 64; done += by) result = x ^ (result >> by);
  return result;
}

// mix64 backwards.
inline std::uint64_t id_of_hash(std::uint64_t hash) {
  std::uint64_t x = unshift(hash * inverse(kHashSpread), 31);
  x = unshift(x * inverse(0x94d049bb133111ebULL), 27);
  x = unshift(x * inverse(0xbf58476d1ce4e5b9ULL), 30);
  return x - kHashSpread;
}

}  // namespace paddle::table
