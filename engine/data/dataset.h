// Batches of a trainer's records; threads of their own read, parse and shuffle them. A batch is a
// pure function of the data, the options, the pass and its number, not of DataConfig::threads or
// time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "engine/config/data_config.h"
#include "engine/data/record_cache.h"
#include "engine/data/records/dictionary.h"
#include "engine/nn/batch.h"

namespace paddle::data {

// A place within a pass from which batches are counted on: those before it may have had another
// size.
struct PassOrigin {
  std::uint32_t pass = 0;
  std::uint64_t batches = 0;
  std::uint64_t records = 0;  // in them, of this trainer
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
  // Of these data alone, and not with data.global_shuffle. Filled by the first stream that reads a
  // whole pass; later ones read no file. None: every pass parses.
  std::shared_ptr<RecordCache> cache = {};
  // A record that does not keep them is a bad one.
  std::vector<nn::SlotRule> rules = {};
  // Told of columns of unlike sizes and of empty fields among the first records, by a thread of the
  // stream, at most twice. None: nobody looks.
  std::function<void(const std::string& warning)> warn = {};
  std::optional<PassOrigin> origin = {};  // nothing: all batches have batch_size
};

// The records of the pass that come before batch `batch`, counted from 0. At the end of the data
// they may be fewer.
std::uint64_t records_before(const DatasetOptions& options, std::uint32_t pass,
                             std::uint64_t batch);
// A hash of the members of `data` by which records, and their order, depend on the files; of no
// path.
std::uint64_t reader_key(const config::DataConfig& data);

class BatchStream {
 public:
  virtual ~BatchStream() = default;
  // Returns the next batch; nothing at the end of the pass. kData names the file, and the line of a
  // bad record unless data.skip_bad_records is set.
  virtual Result<std::optional<nn::Batch>> next() = 0;
  // Number of bad records of the pass left out so far; final after the last batch.
  virtual std::uint64_t bad_records() const = 0;
  // Number of records that this stream has parsed so far, for a batch or for none.
  virtual std::uint64_t records_parsed() const = 0;
  // Share of the pass's records that are in the batches given so far and before them, 0 to 1: exact
  // once all files are read, and estimated from their bytes until then. Nothing while it is not
  // known: before the first batch of a stream that began within the pass, and while objects, whose
  // sizes are not known, are read.
  virtual std::optional<double> share_given() const = 0;
};

// The stream begins with batch `skip`. `index` is memory in which it notes the places of the chunks
// that it has read, as engine/data/pass_index.h says; a later stream of the same pass that gets the
// same memory then parses no more of the records before its first batch than the shuffler holds and
// the chunks around them. Without it, or where that index is of another pass, is damaged or reaches
// not far enough, it parses and drops them. 1 MiB holds about 10,000 chunks, or 2.5 GB of lines.
//
// `dictionary` and `index` must outlive the stream, and only one stream at a time uses an index.
std::unique_ptr<BatchStream> open_pass(const DatasetOptions& options, const Dictionary& dictionary,
                                       std::uint32_t pass, std::uint64_t skip = 0,
                                       std::span<std::byte> index = {});

}  // namespace paddle::data
