#include "base/tally.h"

#include <fmt/format.h>

#include "base/check.h"

namespace paddle {

void Tally::add(const Tally& other) {
  if (empty()) {
    *this = other;
    return;
  }
  PADDLE_CHECK(same_shape(other));
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += other.counts[i];
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += other.sums[i];
}

Bytes encode(const Tally& tally) {
  Bytes bytes;
  append_bytes(bytes, std::span<const std::uint64_t>(tally.counts));
  append_bytes(bytes, std::span<const double>(tally.sums));
  return bytes;
}

Result<Tally> decode_tally(ByteSpan bytes, std::uint64_t counts, std::uint64_t sums) {
  if (counts > kTallyEntriesMax || sums > kTallyEntriesMax - counts ||
      bytes.size() != (counts + sums) * sizeof(std::uint64_t)) {
    return Error{Errc::kData,
                 fmt::format("{} counts and {} sums in {} bytes, at most {} entries are taken",
                             counts, sums, bytes.size(), kTallyEntriesMax),
                 ""};
  }
  Tally tally;
  tally.counts.resize(counts);
  tally.sums.resize(sums);
  const std::size_t split = counts * sizeof(std::uint64_t);
  if (counts > 0) std::memcpy(tally.counts.data(), bytes.data(), split);
  if (sums > 0) std::memcpy(tally.sums.data(), bytes.data() + split, bytes.size() - split);
  return tally;
}

}  // namespace paddle
