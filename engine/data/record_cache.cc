#include "engine/data/record_cache.h"

#include <fmt/format.h>

namespace paddle::data {
namespace {

template <class T>
std::uint64_t bytes_in(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

}  // namespace

void RecordCache::begin() {
  blocks_.clear();
  bytes_ = records_ = 0;
}

// Stores a copy, which unlike `block` has no unused capacity.
Status RecordCache::add(const RecordBlock& block) {
  bytes_ += sizeof(RecordBlock) + bytes_in(block.ids) + bytes_in(block.values) +
            bytes_in(block.counts) + bytes_in(block.records);
  records_ += block.records.size();
  if (bytes_ <= bytes_max_) {
    blocks_.push_back(block);
    return {};
  }
  const std::uint64_t records = records_;
  begin();
  return Error{
      Errc::kResource,
      fmt::format("[data] cache: the first {} records of this trainer exceed the limit of {} bytes",
                  records, bytes_max_),
      "raise [data] cache_bytes_max, give the data to more trainers, or leave out cache"};
}

}  // namespace paddle::data
