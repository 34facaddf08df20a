// A snapshot that is served: all that predictions and rows of its tables need, in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/format.h"
#include "engine/data/preparation.h"
#include "engine/model/description.h"
#include "engine/model/json_requests.h"
#include "engine/model/predictor.h"

namespace paddle::serve {

// A request beyond a limit fails with kResource: a smaller one may succeed.
constexpr std::size_t kRecordsMax = 100'000;        // of a request
constexpr std::size_t kIdsMax = 100'000;            // of a request for rows
constexpr std::size_t kReplyBytesMax = 64U << 20U;  // of a request's predictions or rows
constexpr std::size_t kRecordsAtOnce = 512;         // in one run of the network
constexpr std::size_t kLargeBytes = 4U << 20U;      // more than this is not kept for later requests
// Bounds for the rows that the ids of one record name, and for the rows of one run of the network.
// They are checked before any row is read: ids are short, and rows may be long.
constexpr std::uint64_t kRecordRowBytesMax = 64U << 20U;
constexpr std::uint64_t kRowBytesAtOnce = 16U << 20U;

struct ModelOptions {
  // Predictions are the outputs of this layer; "": the scores of the job's first cost.
  std::string layer;
  inference::DescriptionSource source;
};

enum class RecordFormat { kText, kJson };  // the format of the job, or JSON

// The answer to a request: a line for each record, or one array of them.
struct Predictions {
  std::string text;
  bool is_array = false;
};

// The amount of work for a request.
struct Work {
  std::uint64_t records = 0;
  inference::RowCounts rows;
};

class Model {
 public:
  // kData, kUsage, kResource: as for the commands that use a snapshot.
  static Result<std::shared_ptr<const Model>> load(const std::string& directory,
                                                   const ModelOptions& options);

  // Memory of one thread that is kept from request to request.
  struct Scratch {
    std::uint64_t model = 0;  // number_ of the model that the parser and the network belong to
    std::unique_ptr<data::Format> format;
    std::optional<JsonRecords> json;
    std::optional<data::Preparation> preparation;
    data::RecordBlock block;
    nn::Batch batch;
    inference::Predictor::Scratch network;
    fmt::memory_buffer lines;
    std::uint64_t row_bytes = 0;  // upper bound for the records in the batch
    // A request took much more memory than usual: the caller should make a new Scratch, also if
    // `lines` has room for more than kLargeBytes.
    bool is_large = false;
    // The place of a record in its request: "line 3", or "record 3" of an array.
    struct Place {
      std::uint64_t number = 0;
      bool is_in_array = false;
    };
    // State of the requests that are scored together.
    struct Origin {
      std::size_t request = 0;
      Place place;
    };
    struct Answer {
      Status outcome;           // the first error of the request
      bool is_refused = false;  // the network refused a record; later errors do not count
      bool is_array = false;
      std::uint64_t records = 0;
      std::size_t bytes = 0;  // in `lines`, behind the bytes of earlier requests
    };
    std::vector<Origin> origins;  // of the records in the batch
    std::vector<Answer> answers;
  };
  // Whether the answer to a request has the same bits when other requests are scored with it.
  static bool joins_requests();
  // For each request, a line for each record: "<score>" for text, {"score":0.25} for JSON, as
  // `paddle predict` prints it, but without the label; for an array of records, an array. An error
  // concerns only its request; kData names the first line that is not a record. Adds the records of
  // the answered requests to `work`.
  std::vector<Result<Predictions>> predict(std::span<const std::string_view> requests,
                                           RecordFormat format, Scratch& scratch, Work& work) const;
  // The request is {"parameter":"_proj","ids":[3,7]} or {"words":["in"]}; it needs the parameter
  // only if there are several. The answer, in scratch.lines, is
  // {"parameter":"_proj","rows":[{"id":3,"values":[0.5,1]}]}, with null for the values of an absent
  // row. kData: it is not such a request.
  Result<Work> read_rows(std::string_view request, Scratch& scratch) const;

  // The name of the snapshot's folder: "pass-00002".
  const std::string& name() const { return name_; }
  const snapshot::SnapshotInfo& info() const { return info_; }
  // Format of the job's files: "csv".
  const std::string& format() const { return description_.job.data.format; }
  // The description in JSON. A table's shape is its number of rows and their width.
  // {"snapshot":"pass-00002","passes":3,"step":..,"samples":..,"format":..,"slots":[..],
  //  "predicts":true,"parameters":[{"name":"_fc.w0","kind":"dense","shape":[2,3]}, ..]}
  std::string description() const;

 private:
  Model() = default;
  void prepare(Scratch& scratch) const;
  // Adds the records of a request to the batch, and runs the network whenever there are enough.
  Status read_text(std::string_view records, Scratch& scratch, Work& work) const;
  Status read_json(std::string_view records, Scratch& scratch, Work& work) const;
  // Prepares the parsed records of the block and adds them to the batch.
  Status take_block(Scratch::Place place, RecordFormat format, Scratch& scratch, Work& work) const;
  // Upper bound for the bytes of the rows that the record's ids name.
  std::uint64_t row_bytes(const data::RecordView& record) const;
  // Computes the batch, appends its predictions, and empties it.
  void run(RecordFormat format, Scratch& scratch, Work& work) const;
  Result<std::size_t> find_parameter(const std::string& name) const;
  // False: there is no such row.
  bool read_row(std::size_t parameter, std::uint64_t id, std::vector<float>& values) const;

  std::uint64_t number_ = 0;  // unique among the models of a process
  std::string name_;
  snapshot::SnapshotInfo info_;
  inference::ModelDescription description_;
  std::vector<config::SlotConfig> slots_;
  std::vector<std::uint64_t> bytes_per_id_;          // by slot
  std::optional<inference::Predictor> text_, json_;  // empty if records have no score
  std::vector<wire::ParameterSpec> specs_;
  std::optional<inference::Parameters> parameters_;  // of specs_
};

}  // namespace paddle::serve
