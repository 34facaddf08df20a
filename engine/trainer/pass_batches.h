// A trainer's batches of one pass. [strategy] uneven sets the end of the pass: the end of the
// trainer's own data, or one end for all trainers, which then ask each other before every batch.
#pragma once

#include "engine/client/parameter_client.h"
#include "engine/config/job_config.h"
#include "engine/data/dataset.h"

namespace paddle::trainer {

class PassBatches {
 public:
  struct Options {
    config::Uneven uneven = config::Uneven::kJoin;
    std::uint32_t pass = 0;
    std::uint64_t skip = 0;           // batches of the pass that are already trained
    std::span<std::byte> index = {};  // as for data::open_pass()
  };
  // All references must outlive the object.
  PassBatches(const data::DatasetOptions& data, const data::Dictionary& dictionary,
              client::ParameterClient& client, Options options);

  // Empty at the end of the pass. kData: a bad record, or no batch although `uneven` needs one from
  // every trainer.
  Result<std::optional<nn::Batch>> next();
  // Whether next() takes part in a round of all trainers.
  bool asks_others() const { return options_.uneven != config::Uneven::kJoin; }
  std::uint64_t bad_records() const { return bad_records_ + (repeats_ ? 0 : own_->bad_records()); }
  // As data::BatchStream::share_given(); 1 while the data is repeated.
  std::optional<double> share_given() const { return repeats_ ? 1 : own_->share_given(); }

 private:
  Result<std::optional<nn::Batch>> next_full();
  Result<std::optional<nn::Batch>> next_repeated();
  Status begin_repeating();
  Result<std::uint64_t> count() const;
  std::unique_ptr<data::BatchStream> open(std::uint64_t skip) const;
  Error nothing(std::string_view what) const;

  const data::DatasetOptions& data_;
  const data::Dictionary& dictionary_;
  client::ParameterClient& client_;
  Options options_;
  std::unique_ptr<data::BatchStream> own_;
  std::uint64_t given_ = 0;        // batches, including those of earlier runs
  bool repeats_ = false;           // the trainer is past the end of its data
  std::uint64_t bad_records_ = 0;  // in the data; set when repeating begins
};

}  // namespace paddle::trainer
