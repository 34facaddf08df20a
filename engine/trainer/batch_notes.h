// Per-row facts that a batch sends to tables besides gradients (table/row_notes.h): shows and
// clicks of an id, and the slot that named it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/nn/batch.h"
#include "engine/table/row_notes.h"

namespace paddle::trainer {

class BatchNotes {
 public:
  // kUsage: a label slot without exactly one value per example, an entry for a slot that the table
  // does not read, or a table that a layer other than an embedding reads.
  static Result<BatchNotes> build(const config::JobConfig& job,
                                  const std::vector<wire::ParameterSpec>& parameters);

  // Replaces the notes of all rows, which cover every id of the batch but padding. Each time an
  // example names an id counts as a show, and as a click if the example's label is above 0.
  void write(const nn::Batch& batch, std::span<client::SparseRows> tables) const;

 private:
  struct Feed {
    std::size_t slot = 0;    // slot of the batch
    std::size_t number = 0;  // of the entry policy, from 1; 0: none
    std::optional<std::uint64_t> padding_id;
  };
  struct Table {
    std::uint32_t parameter = 0;
    parameter::RowNotes notes;
    std::optional<std::size_t> label;  // slot of the batch
    std::vector<Feed> feeds;
  };

  std::vector<Table> tables_;  // tables with notes
};

}  // namespace paddle::trainer
