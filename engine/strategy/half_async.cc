#include "engine/strategy/half_async.h"

#include "base/check.h"
#include "engine/strategy/sender.h"

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
      : DensePath(shards),
        sender_(windows(shards.parameters(), options), push_dense_through(shards)) {}

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
      : RowsPath(shards),
        sender_(windows(shards.parameters(), options), push_rows_through(shards)) {}

  Status pull(std::span<client::SparseRows> rows) override {
    return sender_.ask([&] { return shards_.pull_rows(rows); });
  }
  Status push(const client::PushTotals& totals, std::span<client::SparseRows> rows) override {
    return sender_.add(totals, {}, rows, true, nullptr);
  }
  Status settle() override { return sender_.flush(nullptr); }

 private:
  Sender sender_;
};

}  // namespace

DensePathPtr make_half_async_dense(client::ShardChannels& shards, const PathOptions& options) {
  return std::make_unique<HalfAsyncDense>(shards, options);
}

RowsPathPtr make_half_async_rows(client::ShardChannels& shards, const PathOptions& options) {
  return std::make_unique<HalfAsyncRows>(shards, options);
}

}  // namespace paddle::strategy
