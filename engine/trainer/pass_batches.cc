#include "engine/trainer/pass_batches.h"

#include <fmt/format.h>

#include "base/log.h"
#include "base/text.h"

namespace paddle::trainer {

PassBatches::PassBatches(const data::DatasetOptions& data, const data::Dictionary& dictionary,
                         client::ParameterClient& client, Options options)
    : data_(data),
      dictionary_(dictionary),
      client_(client),
      options_(options),
      own_(data::open_pass(data, dictionary, options.pass, options.skip, options.index)),
      given_(options.skip) {}

Result<std::optional<nn::Batch>> PassBatches::next() {
  switch (options_.uneven) {
    case config::Uneven::kDrop:
      return next_full();
    case config::Uneven::kPad:
      return next_repeated();
    case config::Uneven::kJoin:
      break;
  }
  return own_->next();
}

Result<std::optional<nn::Batch>> PassBatches::next_full() {
  PADDLE_TRY(std::optional<nn::Batch> batch, own_->next());
  const bool is_full = batch && batch->size == data_.batch_size;
  if (!is_full && given_ == 0) {
    return nothing(fmt::format("full batch of {}, which uneven = 'drop' needs", data_.batch_size));
  }
  PADDLE_TRY(const bool is_over, client_.is_any(!is_full));
  if (!is_over) {
    ++given_;
    return batch;
  }
  if (batch)
    log_info("{} leaves out the rest of the data: uneven = 'drop'", pass_words(options_.pass));
  return std::optional<nn::Batch>();
}

Result<std::optional<nn::Batch>> PassBatches::next_repeated() {
  PADDLE_TRY(std::optional<nn::Batch> batch, own_->next());
  if (!batch) {
    PADDLE_TRY_STATUS(begin_repeating());
    PADDLE_TRY(batch, own_->next());
  }
  PADDLE_TRY(const bool goes_on, client_.is_any(!repeats_));
  if (!goes_on) return std::optional<nn::Batch>();
  ++given_;
  return batch;
}

// Continues with the first batch of the data after its last one.
Status PassBatches::begin_repeating() {
  if (repeats_) {
    own_ = open(0);
    return {};
  }
  std::uint64_t batches = given_;
  bad_records_ = own_->bad_records();
  if (given_ > 0 && given_ == options_.skip) {
    PADDLE_TRY(batches, count());
  }
  if (batches == 0) return nothing("record, but uneven = 'pad' repeats records of every trainer");
  repeats_ = true;
  own_ = open(given_ % batches);
  return {};
}

// The number of batches in the data. An earlier run may have gone beyond the end of the data, so
// that given_ is no measure.
Result<std::uint64_t> PassBatches::count() const {
  const auto all = open(0);
  for (std::uint64_t batches = 0;; ++batches) {
    PADDLE_TRY(const std::optional<nn::Batch> batch, all->next());
    if (!batch) return batches;
  }
}

std::unique_ptr<data::BatchStream> PassBatches::open(std::uint64_t skip) const {
  return data::open_pass(data_, dictionary_, options_.pass, skip);
}

Error PassBatches::nothing(std::string_view what) const {
  return Error{Errc::kData, fmt::format("trainer {} has no {}", data_.trainer_id, what),
               "give every trainer enough data, or leave [strategy] uneven out"};
}

}  // namespace paddle::trainer
