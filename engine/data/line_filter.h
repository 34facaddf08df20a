// Which lines are a trainer's when all trainers read the same files.
#pragma once

#include "base/rng.h"
#include "engine/data/dataset.h"

namespace paddle::data {

// A line is known by its file's number and its own. By turns when records are split; by
// hash(seed, pass, file, line) under global shuffle, so that each pass deals every line to exactly
// one trainer, and another one each time. Others' lines are not even parsed.
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
