#include <algorithm>

#include <fmt/format.h>

#include "engine/client/parameter_client_impl.h"
#include "engine/optim/optimizer.h"
#include "engine/parameter/parameter_set.h"
#include "engine/parameter/partition.h"

namespace paddle::client {
namespace {

// A shard reads the rows of one pull while the values of the one before are received.
constexpr std::size_t kPullsInFlight = 3;
constexpr std::uint64_t kPullBytesMax = 1U << 20U;  // ids and values of one

Error misuse(std::string message) {
  return Error{Errc::kUsage, std::move(message), ""};
}

ClientLane::Options lane_options(const ParameterClient::Options& options) {
  return {.trainer_id = options.trainer_id,
          .incarnation = options.incarnation,
          .job_tag = options.job_tag};
}

}  // namespace

Result<std::unique_ptr<ParameterClient>> ParameterClient::join(
    Options options, std::vector<std::unique_ptr<net::Link>> dense,
    std::vector<std::unique_ptr<net::Link>> sparse) {
  PADDLE_TRY_STATUS(parameter::validate(options.parameters));
  if (dense.size() != options.parameters.dense_shards() ||
      sparse.size() != options.parameters.sparse_shards() || dense.size() + sparse.size() == 0) {
    return misuse(fmt::format("{} dense and {} sparse links for {} dense and {} sparse ports",
                              dense.size(), sparse.size(), options.parameters.dense_shards(),
                              options.parameters.sparse_shards()));
  }
  auto client = std::make_unique<ParameterClientImpl>(std::move(options), std::move(dense),
                                                      std::move(sparse));
  PADDLE_TRY_STATUS(client->join());
  return std::unique_ptr<ParameterClient>(std::move(client));
}

ParameterClientImpl::ParameterClientImpl(Options options,
                                         std::vector<std::unique_ptr<net::Link>> dense,
                                         std::vector<std::unique_ptr<net::Link>> sparse)
    : options_(std::move(options)),
      dense_("dense", std::move(dense), lane_options(options_), 0, options_.deadline),
      sparse_("sparse", std::move(sparse), lane_options(options_),
              static_cast<std::uint16_t>(dense_.size()), options_.deadline),
      plan_(plan_dense(options_.parameters)),
      lends_(options_.values_of && is_undivided(plan_)) {}

std::uint64_t ParameterClientImpl::width(std::uint32_t parameter) const {
  return parameter::row_width(options_.parameters.parameters(static_cast<int>(parameter)));
}

parameter::RowNotes ParameterClientImpl::notes(std::uint32_t parameter) const {
  return parameter::RowNotes(options_.parameters.parameters(static_cast<int>(parameter)).table());
}

Status ParameterClientImpl::join() {
  const std::string set = options_.parameters.SerializeAsString();
  return on_all(
      [&](ClientLanes& lanes, std::size_t i) {
        Bytes tail;
        append_bytes(tail, std::span<const char>(set));
        wire::Join message;
        message.set_shard(static_cast<std::uint32_t>(i));
        message.set_is_sparse(&lanes == &sparse_);
        return lanes.send(i, FrameType::kJoin, message, std::move(tail));
      },
      [&](ClientLanes& lanes, std::size_t i) -> Status {
        PADDLE_TRY_STATUS(lanes.receive(i, FrameType::kPosition));
        return {};
      });
}

Status ParameterClientImpl::ready() {
  return ask_all(FrameType::kReady, wire::Ready(), FrameType::kPosition,
                 [](ClientLanes&, std::size_t, const Frame&) { return Status(); });
}

Status ParameterClientImpl::check_dense(std::span<DenseParameter> parameters,
                                        std::vector<DenseParameter*>& by_index) {
  const wire::ParameterSet& set = options_.parameters;
  by_index.assign(static_cast<std::size_t>(set.parameters_size()), nullptr);
  for (DenseParameter& parameter : parameters) {
    if (parameter.parameter >= by_index.size() ||
        set.parameters(static_cast<int>(parameter.parameter)).sparse()) {
      return misuse(fmt::format("parameter {} is not dense", parameter.parameter));
    }
    const auto& spec = set.parameters(static_cast<int>(parameter.parameter));
    const std::uint64_t elements = parameter::element_count(spec);
    if (!parameter.gradient.empty() && parameter.gradient.size() != elements) {
      return misuse(fmt::format("the gradient of '{}' has {} elements, expected {}", spec.name(),
                                parameter.gradient.size(), elements));
    }
    parameter.value.resize(elements);
    by_index[parameter.parameter] = &parameter;
  }
  return {};
}

Status ParameterClientImpl::check_rows(std::span<const SparseRows> rows, bool has_gradients) const {
  const wire::ParameterSet& set = options_.parameters;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const SparseRows& table = rows[i];
    if (table.parameter >= static_cast<std::uint32_t>(set.parameters_size()) ||
        !set.parameters(static_cast<int>(table.parameter)).sparse()) {
      return misuse(fmt::format("parameter {} is no sparse table", table.parameter));
    }
    if (i > 0 && table.parameter <= rows[i - 1].parameter) {
      return misuse("sparse tables must be in ascending order of parameter");
    }
    const bool ascends = std::adjacent_find(table.ids.begin(), table.ids.end(),
                                            std::greater_equal<>()) == table.ids.end();
    if (!ascends || (has_gradients &&
                     (table.gradients.size() != table.ids.size() * width(table.parameter) ||
                      table.notes.size() != table.ids.size() * notes(table.parameter).size()))) {
      return misuse(
          fmt::format("ids of table {} are not sorted and unique, or its gradients are "
                      "not ids x width, or its notes missing",
                      table.parameter));
    }
  }
  return {};
}

Result<std::vector<float>> ParameterClientImpl::pull_range(std::size_t shard, std::uint32_t plane,
                                                           std::uint64_t offset,
                                                           std::uint64_t count,
                                                           std::uint64_t& update_count) {
  const std::uint64_t floats_max = options_.transfer_bytes / sizeof(float);
  std::vector<float> values;
  for (std::uint64_t done = 0; done < count;) {
    wire::PullDense pull;
    pull.set_offset(offset + done);
    pull.set_count(std::min(count - done, floats_max));
    pull.set_plane(plane);
    PADDLE_TRY(const Frame frame,
               dense_.exchange(shard, FrameType::kPullDense, pull, {}, FrameType::kDenseValues));
    wire::DenseValues answer;
    PADDLE_TRY_STATUS(dense_.parse(shard, frame, answer));
    if (frame.tail.size() != pull.count() * sizeof(float)) return dense_.malformed(shard, "tail");
    if (done == 0) update_count = answer.update_count();
    const auto part = floats(frame.tail);
    values.insert(values.end(), part.begin(), part.end());
    done += pull.count();
  }
  return values;
}

Status ParameterClientImpl::pull_shard(std::size_t shard, std::span<DenseParameter* const> to) {
  if (lends_) {
    lend(plan_.pieces[shard], options_.values_of(shard), to);
    return {};
  }
  const std::uint64_t floats_max = options_.transfer_bytes / sizeof(float);
  for (std::uint64_t done = 0; done < plan_.sizes[shard]; done += floats_max) {
    wire::PullDense pull;
    pull.set_offset(done);
    pull.set_count(std::min(plan_.sizes[shard] - done, floats_max));
    PADDLE_TRY_STATUS(dense_.send(shard, FrameType::kPullDense, pull, {}));
    wire::DenseValues answer;
    PADDLE_TRY_STATUS(
        receive_values(shard, FrameType::kDenseValues, done, pull.count(), to, answer));
  }
  return {};
}

Status ParameterClientImpl::pull_dense(std::span<DenseParameter> parameters) {
  std::vector<DenseParameter*> by_index;
  PADDLE_TRY_STATUS(check_dense(parameters, by_index));
  for (std::size_t shard = 0; shard < dense_.size(); ++shard) {
    PADDLE_TRY_STATUS(pull_shard(shard, by_index));
  }
  return {};
}

Status ParameterClientImpl::pull_averages(std::span<DenseParameter> dense,
                                          std::span<SparseRows> rows) {
  const wire::Optimizer& optimizer = options_.parameters.optimizer();
  const bool averages = optim::has_average(optimizer);
  if (!averages && !dense.empty()) PADDLE_TRY_STATUS(pull_dense(dense));
  std::vector<DenseParameter*> by_index;
  PADDLE_TRY_STATUS(check_dense(dense, by_index));
  for (DenseParameter& one : dense) one.lent = averages ? std::span<const float>() : one.lent;
  const auto plane = static_cast<std::uint32_t>(optim::state_width(optimizer));
  for (std::size_t shard = 0; averages && shard < dense_.size(); ++shard) {
    for (const DensePiece& piece : plan_.pieces[shard]) {
      if (by_index[piece.parameter] == nullptr) continue;
      std::uint64_t update_count = 0;
      PADDLE_TRY(const auto part, pull_range(shard, plane, piece.offset, piece.size, update_count));
      scatter(std::span(&piece, 1), part, piece.offset, by_index);
    }
  }
  return pull_rows(rows, averages);
}

Status ParameterClientImpl::pull_rows(std::span<SparseRows> rows, bool averages) {
  PADDLE_TRY_STATUS(check_rows(rows, false));
  for (SparseRows& table : rows) table.values.resize(table.ids.size() * width(table.parameter));
  const auto frames =
      plan_rows(rows, options_.parameters, std::min(options_.transfer_bytes, kPullBytesMax));
  std::size_t rounds = 0;
  for (const auto& of_shard : frames) rounds = std::max(rounds, of_shard.size());
  const auto on_shards = [&](std::size_t round, auto&& use) -> Status {
    for (std::size_t shard = 0; shard < frames.size(); ++shard) {
      if (round >= frames[shard].size() || frames[shard][round].ranges.empty()) continue;
      PADDLE_TRY_STATUS(use(shard, frames[shard][round]));
    }
    return {};
  };
  const auto send = [&](std::size_t shard, const RowFrame& frame) {
    wire::PullRows pull;
    Bytes tail;
    pull.set_averages(averages);
    put_ids(pull, tail, frame, rows);
    return sparse_.send(shard, FrameType::kPullRows, pull, std::move(tail));
  };
  const auto receive = [&](std::size_t shard, const RowFrame& frame) {
    return receive_rows(shard, frame, rows);
  };
  for (std::size_t sent = 0, round = 0; round < rounds; ++round) {
    for (; sent < std::min(rounds, round + kPullsInFlight); ++sent) {
      PADDLE_TRY_STATUS(on_shards(sent, send));
    }
    PADDLE_TRY_STATUS(on_shards(round, receive));
  }
  return {};
}

Status ParameterClientImpl::receive_rows(std::size_t shard, const RowFrame& rows_of,
                                         std::span<SparseRows> rows) {
  std::vector<std::span<std::byte>> places;
  std::size_t expected = 0;
  for (const RowRange& range : rows_of.ranges) {
    const std::size_t floats_per_row = width(rows[range.table].parameter);
    for (const RowRun& run : range.runs) {
      const auto values = std::span(rows[range.table].values)
                              .subspan(run.begin * floats_per_row, run.count * floats_per_row);
      places.push_back({reinterpret_cast<std::byte*>(values.data()), values.size_bytes()});
      expected += values.size_bytes();
    }
  }
  bool is_placed = false;
  // Only the awaited answer may touch the values: a late copy of another goes into its frame.
  const auto place = [&](const FrameHeader& header, std::string_view head, std::size_t tail_bytes) {
    wire::RowValues answer;
    is_placed = tail_bytes == expected && stays_in_place(rows_of) &&
                header.type == static_cast<std::uint8_t>(FrameType::kRowValues) &&
                answer.ParseFromArray(head.data(), static_cast<int>(head.size())) &&
                answer.request() == sparse_.at(shard).awaited();
    return is_placed ? places : std::vector<std::span<std::byte>>();
  };
  PADDLE_TRY(const Frame frame, sparse_.receive(shard, FrameType::kRowValues, place));
  if (is_placed) return {};
  if (frame.tail.size() != expected) return sparse_.malformed(shard, "tail");
  ByteSpan left = frame.tail;
  for (const std::span<std::byte> to : places) {
    std::copy_n(left.data(), to.size(), to.data());
    left = left.subspan(to.size());
  }
  return {};
}

Result<PassTotals> ParameterClientImpl::end_pass(const Tally& tally, bool pauses) {
  PassTotals totals;
  const ClientLanes& primary = dense_.size() > 0 ? dense_ : sparse_;
  wire::FinishPass message;
  message.set_pass(primary.at(0).passes_finished());
  message.set_pause(pauses);
  const auto add = [&](ClientLanes& lanes, std::size_t i, const Frame& frame) -> Status {
    wire::PassFinished finished;
    PADDLE_TRY_STATUS(lanes.parse(i, frame, finished));
    totals.discarded = std::max(totals.discarded, finished.discarded());
    for (const wire::TableStatus& status : finished.tables()) {
      TableTotals& table = totals.tables[status.parameter()];
      table.rows += status.rows();
      table.bytes += status.bytes();
      table.payload_bytes += status.payload_bytes();
      table.candidates += status.candidates();
      table.expired += status.expired();
      table.evicted += status.evicted();
      table.shrunk += status.shrunk();
    }
    if (i == 0) {
      PushCounts& counts = &lanes == &dense_ ? totals.dense : totals.sparse;
      counts.pushes = finished.pushes();
      counts.batches = finished.batches();
      counts.lags.assign(finished.lags().begin(), finished.lags().end());
    }
    if (&lanes != &primary || i != 0) return {};
    totals.paused = is_paused_ = finished.paused();
    totals.samples = finished.samples();
    totals.cost = finished.cost_sum();
    auto sum = decode_tally(frame.tail, finished.counts(), finished.sums());
    if (!sum) return lanes.malformed(i, "tail");
    totals.tally = *std::move(sum);
    return {};
  };
  // One shard adds the tallies of all trainers: the first.
  const auto ask = [&](ClientLanes& lanes, std::size_t i) {
    const bool counts = &lanes == &primary && i == 0;
    message.set_counts(counts ? tally.counts.size() : 0);
    message.set_sums(counts ? tally.sums.size() : 0);
    return lanes.send(i, FrameType::kFinishPass, message, counts ? encode(tally) : Bytes());
  };
  PADDLE_TRY_STATUS(on_all(ask, [&](ClientLanes& lanes, std::size_t i) -> Status {
    PADDLE_TRY(const Frame frame, lanes.receive(i, FrameType::kPassFinished));
    return add(lanes, i, frame);
  }));
  return totals;
}

Status ParameterClientImpl::leave() {
  return ask_all(FrameType::kLeave, wire::Leave(), FrameType::kDone,
                 [](ClientLanes&, std::size_t, const Frame&) { return Status(); });
}

}  // namespace paddle::client
