// Filter for the lines of one trainer when all trainers read the same files.
#pragma once

#include "base/rng.h"
#include "engine/data/dataset.h"

namespace paddle::data {

// The numbers of a file and of a line in it decide. Split records go to the trainers in turn. A
// global shuffle hashes (seed, pass, file, line), so that each pass deals every line to exactly one
// trainer, and deals anew. Lines of other trainers are not parsed.
class LineFilter {
 public:
  LineFilter(const DatasetOptions& options, std::uint32_t pass)
      : trainers_(options.share.records_split ? options.num_trainers : 1),
        trainer_(options.trainer_id),
        is_global_(options.data.global_shuffle),
        stream_(hash_combine(hash_combine(options.seed, stable_hash("global shuffle")), pass)) {}

  bool takes(std::uint32_t file, std::uint64_t line) const {
    if (trainers_ <= 1) return true;
    if (!is_global_) return (file + line) % trainers_ == trainer_;
    return hash_combine(hash_combine(stream_, file), line) % trainers_ == trainer_;
  }

 private:
  std::uint64_t trainers_;
  std::uint64_t trainer_;
  bool is_global_;
  std::uint64_t stream_;
};

}  // namespace paddle::data
