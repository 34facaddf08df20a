// Tests on held-out data, the same for training and for a saved model.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "engine/data/dataset.h"
#include "engine/trainer/model.h"

namespace paddle::trainer {

// Options for the batches of a test, without any file.
data::DatasetOptions held_out_options(const config::JobConfig& job, const std::string& folder);
// held_out_options() with the files that match `glob` below `folder`. kData: no file matches.
Result<data::DatasetOptions> held_out_data(const config::JobConfig& job, const std::string& folder,
                                           const std::string& glob);

// Scores all batches of the stream with the model's current dense values. Calls `before_batch`
// before each batch, and `pull` for the values of its rows. The figures depend only on the data,
// the values and the model's number of threads.
Result<Score> score_held_out(
    data::BatchStream& stream, Model& model,
    const std::function<Status(std::span<client::SparseRows>)>& pull,
    const std::function<void()>& before_batch = [] {});

}  // namespace paddle::trainer
