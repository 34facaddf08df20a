// A trainer's records as batches, parsed and shuffled by a thread of their own. A batch is a pure
// function of the data, the seed, the pass, the trainer and its number.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/job_config.h"
#include "engine/nn/batch.h"
#include "engine/trainer/dictionary.h"

namespace paddle::trainer {

// A record is what one example is made of.
//   ngram  a line is a sentence; <s> words <e> gives a window of n ids for each of its positions; a
//   shorter one none.
//          slots word0 .. word{n-2}, next
//   bow    a line is "label<TAB>tokens"; slots words (any number of ids, none too), label
// Its slots are those of config::data_slots.
struct DatasetOptions {
  config::DataConfig data;
  config::DataShare share;
  std::uint32_t trainer_id = 0;
  std::uint32_t num_trainers = 1;
  std::uint64_t seed = 1;
  std::uint64_t shuffle_records = 0;
  std::uint32_t batch_size = 32;
};

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  // The next batch; nothing at the end of the pass. kData names the file and line of a bad record.
  virtual Result<std::optional<nn::Batch>> next() = 0;
};

// `dictionary` must outlive the stream.
std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass);

}  // namespace paddle::trainer
