// A snapshot that is served: what it takes for predictions and for rows of its tables, in memory.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/records/format.h"
#include "engine/inference/description.h"
#include "engine/inference/predictor.h"
#include "engine/serve/json_requests.h"

namespace paddle::serve {

// kResource where a limit is passed: a smaller request may do.
constexpr std::size_t kRecordsMax = 100'000;        // of a request
constexpr std::size_t kIdsMax = 100'000;            // likewise, of rows
constexpr std::size_t kReplyBytesMax = 64U << 20U;  // of its predictions or rows
constexpr std::size_t kRecordsAtOnce = 512;         // in one run of the network
// Rows of tables that the ids of a record name, and of those of one run of the network. Counted
// before any row is read: ids are short, and rows may be long.
constexpr std::uint64_t kRecordRowBytesMax = 64U << 20U;
constexpr std::uint64_t kRowBytesAtOnce = 16U << 20U;

struct ModelOptions {
  std::string layer;  // predictions are its outputs; "": the scores of the job's first cost
  inference::DescriptionSource source;
};

enum class RecordFormat { kText, kJson };  // the format of the job, or JSON

// The answer to a request: a line for each record, or an array of them.
struct Predictions {
  std::string text;
  bool is_array = false;
};

// How much a request was.
struct Work {
  std::uint64_t records = 0;
  inference::RowCounts rows;
};

class Model {
 public:
  // kData, kUsage, kResource: as the commands that use a snapshot.
  static Result<std::shared_ptr<const Model>> load(const std::string& directory,
                                                   const ModelOptions& options);

  // Memory of one thread, kept from request to request.
  struct Scratch {
    std::uint64_t model = 0;  // whose parser and network this is for
    std::unique_ptr<data::Format> format;
    std::optional<JsonRecords> json;
    data::RecordBlock block;
    nn::Batch batch;
    inference::Predictor::Scratch network;
    fmt::memory_buffer lines;
    std::uint64_t row_bytes = 0;  // of the records in the batch, at most
    // A request took much more memory than most do: the caller makes a new Scratch.
    bool is_large = false;
    // Where a record stands in its request: "line 3", or "record 3" of an array.
    struct Place {
      std::uint64_t number = 0;
      bool is_in_array = false;
    };
    // Of the requests that are scored together.
    struct Origin {
      std::size_t request = 0;
      Place place;
    };
    struct Answer {
      Status outcome;           // its first error
      bool is_refused = false;  // the error is one of the network, before which there is none
      bool is_array = false;
      std::uint64_t records = 0;
      std::size_t bytes = 0;  // in `lines`, behind those of the requests before
    };
    std::vector<Origin> origins;  // of the records in the batch
    std::vector<Answer> answers;
  };
  // Whether the answer to a request has the same bits when others are scored with it.
  static bool joins_requests();
  // For each request a line for each record: "<score>" of text, {"score":0.25} of JSON, as `paddle
  // predict` has it but for the label; of an array of records an array. An error is that of its
  // request alone; kData names the first line that is no record. Adds to `work` the records of
  // those that are answered.
  std::vector<Result<Predictions>> predict(std::span<const std::string_view> requests,
                                           RecordFormat format, Scratch& scratch, Work& work) const;
  // {"parameter":"_proj","ids":[3,7]} or {"words":["in"]}, the parameter if there are several; the
  // answer, in scratch.lines, is {"parameter":"_proj","rows":[{"id":3,"values":[0.5,1]}]}, with
  // null for the values of a row that is not there. kData: the request is none.
  Result<Work> read_rows(std::string_view request, Scratch& scratch) const;

  // The folder's own name, "pass-00002".
  const std::string& name() const { return name_; }
  const snapshot::SnapshotInfo& info() const { return info_; }
  // Format of the job's files: "csv".
  const std::string& format() const { return description_.job.data.format; }
  // A table's shape is its rows and their width.
  // {"snapshot":"pass-00002","passes":3,"step":..,"samples":..,"format":..,"slots":[..],
  //  "predicts":true,"parameters":[{"name":"_fc.w0","kind":"dense","shape":[2,3]}, ..]}
  std::string description() const;

 private:
  Model() = default;
  void prepare(Scratch& scratch) const;
  // Adds the records of a request to the batch, and runs the network whenever there are enough.
  Status read_text(std::string_view records, Scratch& scratch, Work& work) const;
  Status read_json(std::string_view records, Scratch& scratch, Work& work) const;
  // Adds the parsed records of the block.
  Status take_block(Scratch::Place place, RecordFormat format, Scratch& scratch, Work& work) const;
  // Of the rows that the record's ids name, at most.
  std::uint64_t row_bytes(const data::RecordView& record) const;
  // Appends the predictions of the batch, and empties it.
  void run(RecordFormat format, Scratch& scratch, Work& work) const;
  Result<std::size_t> find_parameter(const std::string& name) const;
  // False: there is no such row.
  bool read_row(std::size_t parameter, std::uint64_t id, std::vector<float>& values) const;

  std::uint64_t number_ = 0;  // differs between the models of a process
  std::string name_;
  snapshot::SnapshotInfo info_;
  inference::ModelDescription description_;
  std::vector<config::SlotConfig> slots_;
  std::vector<std::uint64_t> bytes_per_id_;          // by slot
  std::optional<inference::Predictor> text_, json_;  // none where records have no score
  std::vector<wire::ParameterSpec> specs_;
  std::optional<inference::Parameters> parameters_;  // of specs_
};

}  // namespace paddle::serve
