// Batches of a trainer's records, which background threads read, parse and shuffle.
//
// INVARIANT: threads do not change a batch. It is a pure function of the data, the options, the
// pass and its number, not of DataConfig::threads or time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/config/data_config.h"
#include "engine/data/dictionary.h"
#include "engine/data/record_cache.h"
#include "engine/nn/batch.h"

namespace paddle::data {

// A place within a pass. Batches after it have batch_size records; those before it may have had
// another size.
struct PassOrigin {
  std::uint32_t pass = 0;
  std::uint64_t batches = 0;
  std::uint64_t records = 0;  // records of this trainer in these batches
};

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
  // With data.test_fraction: the stream has the held-out records; false: all others.
  bool held_out = false;
  // Records of `data`, which must not have global_shuffle. The first stream that reads a whole pass
  // fills the cache; later streams read no file. Null: every pass parses the files.
  std::shared_ptr<RecordCache> cache = {};
  // A record that breaks a rule is a bad record.
  std::vector<nn::SlotRule> rules = {};
  // Called with warnings about columns of very different sizes and about empty fields in the first
  // records, by a thread of the stream, at most twice. Null: the stream does not look for them.
  std::function<void(const std::string& warning)> warn = {};
  // Called with each block of records, in any order and by all data.threads at once. The records
  // then have the slots of config::raw_slots(data), a missing number is NaN, and the stream has no
  // batches. REQUIRES: no cache and no rules. Null: records are prepared.
  std::function<void(const RecordBlock& block)> observe = {};
  std::optional<PassOrigin> origin = {};  // empty: all batches have batch_size
};

// Number of records of the pass before batch `batch`, which counts from 0. At the end of the data
// there may be fewer.
std::uint64_t records_before(const DatasetOptions& options, std::uint32_t pass,
                             std::uint64_t batch);
// A hash of the members of `data` that decide which records the files give, and in which order. It
// does not depend on paths.
std::uint64_t reader_key(const config::DataConfig& data);

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  // Returns the next batch; nothing at the end of the pass. kData: a file cannot be read, or has a
  // bad record and data.skip_bad_records is not set; the message names the file and the line.
  virtual Result<std::optional<nn::Batch>> next() = 0;
  // Number of bad records of the pass left out so far; final after the last batch.
  virtual std::uint64_t bad_records() const = 0;
  // Number of records that this stream has parsed so far, including those that are in no batch.
  virtual std::uint64_t records_parsed() const = 0;
  // Share of the pass's records, 0 to 1, that are in the batches returned so far or before the
  // first of them. It is exact once all files are read, and estimated from their bytes until then.
  // Nothing while it is not known: before the first batch of a stream that began within the pass,
  // and while objects, whose sizes are not known, are read.
  virtual std::optional<double> share_given() const = 0;
};

// The stream begins with batch `skip`. It writes the places of the chunks that it has read into
// `index` (engine/data/pass_index.h). With these, a later stream of the same pass parses, of the
// records before its first batch, only those that the shuffler holds and the rest of their chunks.
// If `index` is empty, belongs to another pass, is damaged or does not reach far enough, the stream
// parses and drops all earlier records. 1 MiB is enough for about 10,000 chunks, or 2.5 GB of
// lines.
//
// `dictionary` and `index` must outlive the stream, and only one stream at a time uses an index.
std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass, std::uint64_t skip = 0,
                                       std::span<std::byte> index = {});

}  // namespace paddle::data
