// half_async: training continues while another thread of the trainer pushes, and shards apply each
// push at once (async.h).
//
// With one trainer the bits do not depend on time. After a window ends, the dense values become
// those of the window send_queue_size before it; and a pull of rows is sent before the windows that
// were closed since the last pull.
#include <utility>

#include "base/check.h"
#include "engine/strategy/async.h"
#include "engine/strategy/sender.h"
#include "engine/strategy/strategy_table.h"

namespace paddle::strategy {
namespace {

Communicator::Options windows(const wire::ParameterSet& set, const PathOptions& options) {
  Communicator::Options result{.max_merge = options.max_merge,
                               .send_queue_size = options.send_queue_size,
                               .merge = set.merge()};
  for (const wire::ParameterSpec& spec : set.parameters()) {
    if (spec.sparse()) result.notes.emplace_back(spec.table());
  }
  return result;
}

class HalfAsyncDense final : public client::DensePath {
 public:
  HalfAsyncDense(client::ShardChannels& shards, const PathOptions& options)
      : Path(shards), sender_(windows(shards.parameters(), options), push_dense_through(shards)) {}

  Status push(const client::PushTotals& totals,
              std::span<client::DenseParameter> parameters) override {
    std::vector<client::DenseParameter> values;
    PADDLE_TRY_STATUS(sender_.add(totals, parameters, {}, false, &values));
    if (values.empty()) return {};
    PADDLE_CHECK(values.size() == parameters.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      parameters[i].value = std::move(values[i].value);
    }
    return {};
  }
  Status settle() override { return sender_.flush(nullptr); }

 private:
  Sender sender_;
};

class HalfAsyncRows final : public client::RowsPath {
 public:
  HalfAsyncRows(client::ShardChannels& shards, const PathOptions& options)
      : Path(shards), sender_(windows(shards.parameters(), options), push_rows_through(shards)) {}

  Status pull(std::span<client::SparseRows> rows) override {
    return sender_.ask([&] { return shards_.pull(rows); });
  }
  // Pulls the rows of the next batch before the push of this one, which then need not be held back
  // until the next pull.
  Result<bool> pull_ahead(std::span<client::SparseRows> rows) override {
    PADDLE_TRY_STATUS(pull(rows));
    return is_ahead_ = true;
  }
  Status push(const client::PushTotals& totals, std::span<client::SparseRows> rows) override {
    return sender_.add(totals, {}, rows, !std::exchange(is_ahead_, false), nullptr);
  }
  Status settle() override { return sender_.flush(nullptr); }

 private:
  Sender sender_;
  bool is_ahead_ = false;  // the rows of the next batch have been pulled
};

}  // namespace

const Strategy kHalfAsync{"half_async", wire::STRATEGY_HALF_ASYNC, make_policy<AsyncUpdates>,
                          make_path<client::DensePath, HalfAsyncDense>,
                          make_path<client::RowsPath, HalfAsyncRows>};

}  // namespace paddle::strategy
