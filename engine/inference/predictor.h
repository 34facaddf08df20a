// Scores of records by a saved model, as lines of text.
//
//   csv      <label>,<score>            of a probability, a number, or the second of two classes
//            <label>,<score>,<score>    of several outputs
//            <label>,<class>,<score>    of more than two classes: the likeliest, and how likely it
//            is <label>,<value>,<value>    of a layer that was asked for: its outputs as they are
//   jsonl    {"label":1,"score":0.25}, {"label":[1,7],"scores":[0.5,0.25]},
//            {"label":3,"class":7,"score":0.5}, {"label":1,"values":[0.5,-2]}
//
// Numbers are the shortest that read back as the same float32. Where the label's slot names its
// classes, labels and classes are those names.
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include "engine/config/job_config.h"
#include "engine/inference/parameters.h"
#include "engine/nn/network/network.h"

namespace paddle::inference {

enum class LineFormat { kCsv, kJson };

// The cost that scores records.
const config::LayerConfig& first_cost(const config::JobConfig& job);
// False where the job's first cost compares a record with drawn classes, which gives it no score.
bool scores_records(const config::JobConfig& job);
// `layer`, or for "" the one that the first cost reads. kUsage: that cost gives no score.
Result<std::string> output_layer(const config::JobConfig& job, const std::string& layer);

class Predictor {
 public:
  // The scores are those of what the job's first cost reads, or the outputs of `layer` unless that
  // is empty. Without labels a line begins behind the first comma. kUsage: there is no such layer,
  // or the cost has no score of a record.
  static Result<Predictor> build(const config::JobConfig& job, const std::string& layer,
                                 LineFormat format, bool with_labels = true);

  const std::vector<wire::ParameterSpec>& parameters() const { return network_.parameters(); }

  // The conditions of the layers that run on records.
  const std::vector<nn::SlotRule>& rules() const { return network_.rules(); }

  // Memory of one thread, kept from batch to batch.
  struct Scratch {
    nn::Workspace workspace;
    nn::Parameters parameters;
    std::vector<std::vector<std::uint64_t>> ids;  // these three by parameter
    std::vector<std::vector<float>> rows;
    std::vector<nn::RowLookup> lookups;
    std::size_t begin = 0;      // the first record of the outputs
    std::vector<float> scores;  // of one record
  };
  // Whether a record's score has the same bits in every batch, as on CPUs with AVX-512. Elsewhere
  // its last digit depends on its place in the batch too: matrix products add up in another order
  // at their edges.
  static bool has_independent_records();
  // Appends a line for each record of the batch.
  Result<RowCounts> predict(const nn::Batch& batch, const Parameters& parameters, Scratch& scratch,
                            fmt::memory_buffer& lines, DistinctIds* distinct = nullptr) const;

  // The same in steps. First the rows that the batch needs; kData as of nn::Network::check().
  Result<RowCounts> read_rows(const nn::Batch& batch, const Parameters& parameters,
                              Scratch& scratch, DistinctIds* distinct = nullptr) const;
  // Then the outputs for the records [begin, end). kData: one of them has a wrong id.
  Status compute(const nn::Batch& batch, std::size_t begin, std::size_t end,
                 Scratch& scratch) const;
  // Appends the line of a record, by its number in the batch, among those computed last.
  void add_line(const nn::Batch& batch, std::size_t record, Scratch& scratch,
                fmt::memory_buffer& lines) const;

 private:
  enum class Score { kValues, kProbabilities, kClasses };

  Predictor(nn::Network network, LineFormat format)
      : network_(std::move(network)), format_(format) {}

  nn::Network network_;
  LineFormat format_;
  Score score_ = Score::kValues;
  bool is_layer_ = false;  // one that was asked for
  bool with_labels_ = true;
  std::optional<std::size_t> label_slot_;  // of the first cost
  std::size_t label_width_ = 0;            // in floats; 0: ids
  std::vector<std::string> class_names_;   // of the label slot's classes; empty: numbers
  kernels::Compute compute_ = kernels::Compute::kFloat32;
};

}  // namespace paddle::inference
