// Batches of a trainer's records; threads of their own read, parse and shuffle them. A batch is a
// pure function of the data, the options, the pass and its number, not of DataConfig::threads or
// time.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "engine/config/data_config.h"
#include "engine/data/dictionary.h"
#include "engine/nn/batch.h"

namespace paddle::data {

// A batch has the slots of config::data_slots(data).
struct DatasetOptions {
  config::DataConfig data;
  config::DataShare share;
  std::string folder = ".";  // the folder of job.toml, in which pipe_command runs
  std::uint32_t trainer_id = 0;
  std::uint32_t num_trainers = 1;
  std::uint64_t seed = 1;
  std::uint64_t shuffle_records = 0;  // window of the shuffle inside this trainer; 0: none
  std::uint32_t batch_size = 32;
};

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  // Returns the next batch; nothing at the end of the pass. kData names the file, and the line of a
  // bad record unless data.skip_bad_records is set.
  virtual Result<std::optional<nn::Batch>> next() = 0;
  // Number of bad records left out so far; final after the last batch.
  virtual std::uint64_t bad_records() const = 0;
  // Share of the pass's bytes that are read and in or before the batches at hand, 0 to 1.
  virtual double share_read() const = 0;
};

// `dictionary` must outlive the stream.
std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass);

}  // namespace paddle::data
