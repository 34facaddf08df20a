// A hash of the content of a trainer's data files, by which a job that goes on within a pass knows
// whether they are still the same.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace paddle::data {

// Files with more bytes than that are hashed by evenly spread blocks.
constexpr std::uint64_t kHashedBytesMax = 1ULL << 30U;

// The files in this order, whatever their names are. Never 0.
Result<std::uint64_t> hash_content(const std::vector<std::string>& files,
                                   std::uint64_t bytes_max = kHashedBytesMax);

// hash_content(), computed by a thread of its own while training begins.
class ContentHash {
 public:
  // `names_hash`: of objects, which are not read; 0: they are files.
  ContentHash(std::vector<std::string> files, std::uint64_t names_hash);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  // Waits for it. 0: a file cannot be read, which training tells.
  std::uint64_t value();

 private:
  std::uint64_t value_ = 0;
  std::thread thread_;  // last, because it writes value_
};

}  // namespace paddle::data
