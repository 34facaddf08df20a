// Counter-based random numbers: value i of a stream is a pure function of (stream, i), on any
// machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace paddle {

// splitmix64's finaliser (Steele, Lea, Flood 2014): a bijection on 64 bits with full avalanche.
constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_combine(std::uint64_t seed, std::uint64_t value) {
  return mix64(seed ^ mix64(value));
}

// FNV-1a then mix64: stable across builds, unlike std::hash.
constexpr std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return mix64(hash);
}

// The stream of one example in one layer, for dropout's mask or the negative samples of a sampled
// cost. `layer` is the stable_hash of its name.
constexpr std::uint64_t example_stream(std::uint64_t seed, std::uint64_t layer,
                                       std::uint64_t example) {
  return hash_combine(hash_combine(seed, layer), example);
}
constexpr std::uint64_t example_stream(std::uint64_t seed, std::string_view layer,
                                       std::uint64_t example) {
  return example_stream(seed, stable_hash(layer), example);
}

class Rng {
 public:
  // `first` is the index of the first value: a caller that continues a stream passes the number of
  // values that an earlier Rng has drawn.
  explicit constexpr Rng(std::uint64_t stream, std::uint64_t first = 0)
      : stream_(stream), counter_(first) {}

  constexpr std::uint64_t next() { return hash_combine(stream_, counter_++); }
  // Uniform in [0, bound), bound > 0. The modulo bias is below 2^-32 for bounds under 2^32.
  constexpr std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  // Uniform in [0, 1) with 53 bits.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Standard normal by Box-Muller.
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t stream_;
  std::uint64_t counter_;
};

}  // namespace paddle
