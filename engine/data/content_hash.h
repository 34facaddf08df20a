// A hash of the content of a trainer's data files. A job that continues within a pass compares it
// to check that the files are still the same.
#pragma once

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "base/result.h"

namespace paddle::data {

// If the files together have more bytes, only evenly spread blocks are hashed.
constexpr std::uint64_t kHashedBytesMax = 1ULL << 30U;

// Hash of the files in this order; their names do not matter. Never 0. kData: a file is not a
// regular one or cannot be read.
Result<std::uint64_t> hash_content(const std::vector<std::string>& files,
                                   std::uint64_t bytes_max = kHashedBytesMax);

// hash_content(), computed by a thread of its own while training begins.
class ContentHash {
 public:
  // `names_hash`: the hash of objects, whose content is not read; 0: `files` are files.
  ContentHash(std::vector<std::string> files, std::uint64_t names_hash);
  ~ContentHash();
  ContentHash(const ContentHash&) = delete;
  ContentHash& operator=(const ContentHash&) = delete;

  // Waits for the hash. 0: a file cannot be read; the reader of the data reports the error.
  std::uint64_t value();

 private:
  std::uint64_t value_ = 0;
  std::thread thread_;  // last, because it writes value_
};

}  // namespace paddle::data
