// Tests on held-out data, which training and a saved model make in the same way.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "engine/data/dataset.h"
#include "engine/trainer/model.h"

namespace paddle::trainer {

// The batches of tests, without a file.
data::DatasetOptions held_out_options(const config::JobConfig& job, const std::string& folder);
// The files of `glob` below `folder`. kData: no file matches.
Result<data::DatasetOptions> held_out_data(const config::JobConfig& job, const std::string& folder,
                                           const std::string& glob);

// Scores all batches of the stream, with the model's dense values as they are. `before_batch` is
// called before each one, `pull` brings the values of its rows. The figures depend on the data, the
// values and the model's number of threads alone.
Result<Score> score_held_out(
    data::BatchStream& stream, Model& model,
    const std::function<Status(std::span<client::SparseRows>)>& pull,
    const std::function<void()>& before_batch = [] {});

}  // namespace paddle::trainer
