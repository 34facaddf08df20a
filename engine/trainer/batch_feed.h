// Batches of a pass on their way through the model. While a card computes one batch, the next one
// is read and prepared, as far as it does not depend on the first.
#pragma once

#include <optional>

#include "base/rng.h"
#include "engine/trainer/model.h"
#include "engine/trainer/pass_batches.h"

namespace paddle::trainer {

class BatchFeed {
 public:
  struct Options {
    std::uint64_t seed = 0;         // of this trainer's pass
    std::uint64_t done = 0;         // batches of the pass that are already trained
    std::uint32_t test_period = 0;  // batches; 0: no test before the end of the pass
  };
  // All references must outlive the feed.
  BatchFeed(PassBatches& batches, Model& model, client::ParameterClient& client, Options options)
      : batches_(batches), model_(model), client_(client), options_(options) {}

  // Goes to the next batch; false at the end of the pass. Errors: as PassBatches::next().
  Result<bool> next();
  const nn::Batch& batch() const { return **now_.batch; }
  std::uint64_t bad_records() const { return now_.bad_records; }  // up to this batch
  // Share of the pass's records that this batch and earlier ones contain; empty: unknown.
  std::optional<double> share_given() const { return now_.share_given; }

  // The steps of a batch: prepare() collects its rows, pull() gets their values, and compute()
  // computes it while its push begins. `waited` becomes the time that compute() waited for other
  // processes.
  Status prepare();
  Status pull();
  Result<Score> compute(Duration& waited);

 private:
  struct Read {
    Result<std::optional<nn::Batch>> batch = std::optional<nn::Batch>();
    std::uint64_t bad_records = 0;
    std::optional<double> share_given = {};
    bool is_prepared = false;
    bool has_rows = false;
  };
  Read read();
  Status look_ahead(Duration& waited);
  std::uint64_t seed_of(std::uint64_t batch) const { return hash_combine(options_.seed, batch); }

  PassBatches& batches_;
  Model& model_;
  client::ParameterClient& client_;
  Options options_;  // compute() increments `done`
  Read now_;
  std::optional<Read> next_;
};

}  // namespace paddle::trainer
