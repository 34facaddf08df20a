#include "engine/trainer/batch_feed.h"

#include <utility>

namespace paddle::trainer {

BatchFeed::Read BatchFeed::read() {
  Read read{.batch = batches_.next()};
  read.bad_records = batches_.bad_records();
  read.share_given = batches_.share_given();
  return read;
}

Result<bool> BatchFeed::next() {
  now_ = next_ ? *std::exchange(next_, std::nullopt) : read();
  if (!now_.batch) return now_.batch.error();
  return now_.batch->has_value();
}

Status BatchFeed::prepare() {
  if (!now_.is_prepared) return model_.prepare(batch(), seed_of(options_.done));
  model_.take_next();
  return {};
}

Status BatchFeed::pull() {
  return now_.has_rows ? Status() : client_.pull_rows(model_.rows());
}

Result<Score> BatchFeed::compute(Duration& waited) {
  PADDLE_TRY_STATUS(model_.begin(batch(), seed_of(options_.done)));
  const TimePoint begun = std::chrono::steady_clock::now();
  PADDLE_TRY_STATUS(client_.begin_push(batch().size, model_.rows()));
  waited = std::chrono::steady_clock::now() - begun;
  ++options_.done;
  PADDLE_TRY_STATUS(look_ahead(waited));
  return model_.finish(batch());
}

// Rows of the next batch are not pulled before a test that comes first. An error of reading or
// preparing the next batch is reported when that batch is current.
Status BatchFeed::look_ahead(Duration& waited) {
  const bool is_tested = options_.test_period > 0 && options_.done % options_.test_period == 0;
  if (!model_.looks_ahead() || batches_.asks_others() || is_tested) return {};
  Read& next = next_.emplace(read());
  if (!next.batch || !*next.batch) return {};
  const std::uint64_t seed = seed_of(options_.done);
  next.is_prepared = static_cast<bool>(model_.prepare_next(**next.batch, seed));
  if (!next.is_prepared) return {};
  const TimePoint asked = std::chrono::steady_clock::now();
  PADDLE_TRY(next.has_rows, client_.pull_ahead(model_.next_rows()));
  waited += std::chrono::steady_clock::now() - asked;
  model_.stage_next(**next.batch, seed, next.has_rows);
  return {};
}

}  // namespace paddle::trainer
