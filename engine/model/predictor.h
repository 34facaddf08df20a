// Scores of records by a saved model, as lines of text.
//
//   csv      <label>,<score>            for a probability, a number, or the second of two classes
//            <label>,<score>,<score>    for several outputs
//            <label>,<class>,<score>    for more classes: the likeliest one and its probability
//            <label>,<value>,<value>    for a layer that was asked for: its outputs, unchanged
//   jsonl    {"label":1,"score":0.25}, {"label":[1,7],"scores":[0.5,0.25]},
//            {"label":3,"class":7,"score":0.5}, {"label":1,"values":[0.5,-2]}
//
// Numbers are the shortest text that reads back as the same float32. If the label's slot names its
// classes, labels and classes are these names, and up to kClassColumnsMax classes all have their
// probabilities, in the order of the names:
//
//   csv      <label>,<class>,<probability>,<probability>    below a header with these names
//   jsonl    {"label":"no","class":"no","score":0.25,"probabilities":{"no":0.75,"yes":0.25}}
#pragma once

#include <optional>
#include <string>

#include <fmt/format.h>

#include "engine/config/job_config.h"
#include "engine/model/parameters.h"
#include "engine/nn/network.h"

namespace paddle::inference {

enum class LineFormat { kCsv, kJson };

constexpr std::size_t kClassColumnsMax = 100;

// The job's first cost, which scores records.
const config::LayerConfig& first_cost(const config::JobConfig& job);
// False if the job's first cost compares a record with sampled classes, which gives no score.
bool scores_records(const config::JobConfig& job);
// `layer`, or if it is "", the layer that the first cost reads. kUsage: that cost gives no score.
Result<std::string> output_layer(const config::JobConfig& job, const std::string& layer);

class Predictor {
 public:
  // The scores are computed from what the job's first cost reads, or are the outputs of `layer`
  // unless that is empty. Without labels, lines have no label field. kUsage: there is no such
  // layer, or the cost gives a record no score.
  static Result<Predictor> build(const config::JobConfig& job, const std::string& layer,
                                 LineFormat format, bool with_labels = true);

  const std::vector<wire::ParameterSpec>& parameters() const { return network_.parameters(); }

  // Requirements on records of the layers that run.
  const std::vector<nn::SlotRule>& rules() const { return network_.rules(); }

  // Memory of one thread that is kept from batch to batch.
  struct Scratch {
    nn::Workspace workspace;
    nn::Parameters parameters;
    std::vector<std::vector<std::uint64_t>> ids;  // these three by parameter
    std::vector<std::vector<float>> rows;
    std::vector<nn::RowLookup> lookups;
    std::size_t begin = 0;      // the first record whose outputs were computed
    std::vector<float> scores;  // of one record
  };
  // Whether a record's score has the same bits in every batch, as on CPUs with AVX-512. On other
  // CPUs its last digit also depends on the record's place in the batch: matrix products add up in
  // another order at their edges.
  static bool has_independent_records();
  // The line above all others, with its end: "label,class,no,yes"; "" if they need none.
  std::string header() const;
  // Appends a line for each record of the batch.
  Result<RowCounts> predict(const nn::Batch& batch, const Parameters& parameters, Scratch& scratch,
                            fmt::memory_buffer& lines, DistinctIds* distinct = nullptr) const;

  // The steps of predict(). The first one reads the rows that the batch needs; kData as for
  // nn::Network::check().
  Result<RowCounts> read_rows(const nn::Batch& batch, const Parameters& parameters,
                              Scratch& scratch, DistinctIds* distinct = nullptr) const;
  // The second step computes the outputs for the records [begin, end). kData: one of them has a
  // wrong id.
  Status compute(const nn::Batch& batch, std::size_t begin, std::size_t end,
                 Scratch& scratch) const;
  // The last step appends the line of one of the records computed last; `record` is its number in
  // the batch.
  void add_line(const nn::Batch& batch, std::size_t record, Scratch& scratch,
                fmt::memory_buffer& lines) const;

 private:
  enum class Score { kValues, kProbabilities, kClasses };

  // Turns the outputs for a record into the probabilities of all classes.
  void make_probabilities(std::vector<float>& scores) const;
  void add_classes(std::span<const float> probabilities, fmt::memory_buffer& lines) const;

  Predictor(nn::Network network, LineFormat format)
      : network_(std::move(network)), format_(format) {}

  nn::Network network_;
  LineFormat format_;
  Score score_ = Score::kValues;
  bool is_layer_ = false;  // the outputs of a layer were asked for
  bool with_labels_ = true;
  std::optional<std::size_t> label_slot_;  // of the first cost's label
  std::size_t label_width_ = 0;            // in floats; 0: ids
  std::vector<std::string> class_names_;   // of the label slot's classes; empty: numbers
  bool lists_classes_ = false;             // lines have the probabilities of all classes
  kernels::Compute compute_ = kernels::Compute::kFloat32;
};

}  // namespace paddle::inference
