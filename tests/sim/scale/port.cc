#include "tests/sim/scale/port.h"

#include <time.h>

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "engine/strategy/strategy_table.h"

namespace paddle::sim {
namespace {

// Adds the CPU time of its thread during its incarnation: other processes may be busy.
class Stopwatch {
 public:
  explicit Stopwatch(double& seconds) : seconds_(seconds), begin_(cpu_seconds()) {}
  ~Stopwatch() { seconds_ += cpu_seconds() - begin_; }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  static double cpu_seconds() {
    timespec used{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
  }

  double& seconds_;
  double begin_;
};

std::uint64_t bytes_of_frame(const Frame& frame) {
  return kFrameHeaderBytes + frame.head.size() + frame.tail.size();
}

std::span<const float> floats_of(const Frame& frame) {
  return {reinterpret_cast<const float*>(frame.tail.data()), frame.tail.size() / sizeof(float)};
}

template <std::size_t kSize>
void subtract(std::array<float, kSize>& from, const std::array<float, kSize>& gradient) {
  for (std::size_t i = 0; i < kSize; ++i) from[i] -= gradient[i];
}

}  // namespace

ScaledPort::ScaledPort(const ScaledModel& model, std::uint32_t index, bool is_sparse)
    : model_(model), index_(index), is_sparse_(is_sparse), now_(std::chrono::hours(1)) {
  if (is_sparse) {
    expected_rows_.resize(1 + std::size_t{model.trainers()});
    return;
  }
  for (auto* const values : {&seen_, &come_, &due_}) values->resize(model.trainers());
}

void ScaledPort::start() {
  shard_ = std::make_unique<pserver::Shard>(
      pserver::ShardOptions{.make_policy = strategy::make_update_policy,
                            .index = index_,
                            .is_sparse = is_sparse_,
                            .num_gradient_servers = model_.trainers(),
                            .job_tag = 1,
                            .server_generation = 1});
}

void ScaledPort::connect() {
  lanes_.reserve(model_.trainers());
  for (std::uint32_t trainer = 0; trainer < model_.trainers(); ++trainer) {
    lanes_.emplace_back(
        client::ClientLane::Options{.trainer_id = trainer, .incarnation = 1, .job_tag = 1});
  }
}

void ScaledPort::fail(const std::string& what) {
  if (!error_.empty()) return;
  error_ = fmt::format("{} port {}: {}", is_sparse_ ? "sparse" : "dense", index_, what);
}

void ScaledPort::ask(FrameType type, std::uint32_t begin, std::uint32_t end, Rng rng,
                     const ScaledPort& beside) {
  std::vector<std::uint32_t> order(end - begin);
  std::iota(order.begin(), order.end(), begin);
  for (std::size_t left = order.size(); left > 1; --left) {
    std::swap(order[left - 1], order[rng.below(left)]);
  }
  std::vector<Frame> frames;
  for (const std::uint32_t trainer : order) {
    frames.push_back(request(trainer, type, beside));
    ++cost_.requests;
    cost_.request_bytes += bytes_of_frame(frames.back());
  }
  std::vector<net::Outgoing> out;
  {
    const Stopwatch watch(cost_.port_seconds);
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const std::size_t before = out.size();
      shard_->on_frame(now_, order[i], std::move(frames[i]), out);
      net::keep_views(std::span(out).subspan(before));
    }
  }
  deliver(out);
}

void ScaledPort::tick(Duration later) {
  now_ += later;
  std::vector<net::Outgoing> out;
  {
    const Stopwatch watch(cost_.port_seconds);
    shard_->on_tick(now_, out);
  }
  deliver(out);
}

void ScaledPort::deliver(std::vector<net::Outgoing>& out) {
  for (const net::Outgoing& outgoing : out) {
    if (outgoing.close_after) fail("a connection is closed");
    ++cost_.answers;
    cost_.answer_bytes += bytes_of_frame(outgoing.frame);
  }
  {
    const Stopwatch watch(cost_.trainer_seconds);
    for (net::Outgoing& outgoing : out) {
      auto answer = lanes_[outgoing.to].on_frame(std::move(outgoing.frame), now_);
      outgoing.frame = Frame();
      if (!answer) return fail(fmt::format("trainer {}: {}", outgoing.to, answer.error().message));
      if (*answer) outgoing.frame = **std::move(answer);
    }
  }
  for (const net::Outgoing& outgoing : out) {
    take(static_cast<std::uint32_t>(outgoing.to), outgoing.frame);
  }
}

void ScaledPort::end_batch() {
  ++batch_;
  seen_ = come_;
}

Frame ScaledPort::request(std::uint32_t trainer, FrameType type, const ScaledPort& beside) {
  client::ClientLane& lane = lanes_[trainer];
  switch (type) {
    case FrameType::kJoin: {
      wire::Join message;
      message.set_shard(index_);
      message.set_is_sparse(is_sparse_);
      Bytes tail;
      append_bytes(tail, std::span<const char>(model_.set_text()));
      return lane.request(type, message, std::move(tail), now_);
    }
    case FrameType::kReady:
      return lane.request(type, wire::Ready(), {}, now_);
    case FrameType::kPullDense: {
      wire::PullDense message;
      message.set_count(kDenseOfPort);
      return lane.request(type, message, {}, now_);
    }
    case FrameType::kPullRows: {
      wire::PullRows message;
      auto& segment = *message.add_segments();
      segment.set_parameter(kTable);
      segment.set_count(kRowsOfPush);
      return lane.request(type, message, row_ids(trainer), now_);
    }
    case FrameType::kPushRows:
      return is_sparse_ ? row_push(trainer) : dense_push(trainer, beside);
    case FrameType::kFinishPass:
      return lane.request(type, wire::FinishPass(), {}, now_);
    default:
      return lane.request(FrameType::kLeave, wire::Leave(), {}, now_);
  }
}

Bytes ScaledPort::row_ids(std::uint32_t trainer) const {
  Bytes tail;
  for (const std::size_t row : model_.rows_of(index_, trainer)) {
    const std::uint64_t id = model_.id_of(index_, row);
    append_bytes(tail, std::span(&id, 1));
  }
  return tail;
}

Frame ScaledPort::dense_push(std::uint32_t trainer, const ScaledPort& beside) {
  const DenseValues gradient =
      model_.dense_gradient(index_, trainer, batch_, seen_[trainer], beside.seen_[trainer]);
  subtract(expected_, gradient);
  due_[trainer] = expected_;
  wire::PushDense message;
  message.mutable_part()->set_parts(1);
  message.mutable_part()->set_samples(1);
  message.set_count(gradient.size());
  Bytes tail;
  append_bytes(tail, std::span<const float>(gradient));
  return lanes_[trainer].request(FrameType::kPushDense, message, std::move(tail), now_);
}

Frame ScaledPort::row_push(std::uint32_t trainer) {
  wire::PushRows message;
  message.mutable_part()->set_parts(1);
  message.mutable_part()->set_samples(1);
  auto& segment = *message.add_segments();
  segment.set_parameter(kTable);
  segment.set_count(kRowsOfPush);
  Bytes tail = row_ids(trainer);
  const RowGradients gradients = model_.row_gradients(index_, trainer, batch_);
  const auto rows = model_.rows_of(index_, trainer);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    subtract(expected_rows_[rows[i]], gradients[i]);
    append_bytes(tail, std::span<const float>(gradients[i]));
  }
  return lanes_[trainer].request(FrameType::kPushRows, message, std::move(tail), now_);
}

void ScaledPort::take(std::uint32_t trainer, const Frame& frame) {
  const auto values = floats_of(frame);
  switch (static_cast<FrameType>(frame.header.type)) {
    case FrameType::kRowValues:
      return check_rows(trainer, values);
    case FrameType::kDenseValues:
    case FrameType::kPushed:
      if (is_sparse_) return;
      if (!std::ranges::equal(values, model_.has_rounds() ? expected_ : due_[trainer])) {
        return fail(fmt::format("trainer {} was given values of another step", trainer));
      }
      std::ranges::copy(values, come_[trainer].begin());
      return;
    case FrameType::kPassFinished: {
      wire::PassFinished totals;
      PADDLE_CHECK(totals.ParseFromString(frame.head));
      return check_totals(totals);
    }
    default:
      return;
  }
}

void ScaledPort::check_rows(std::uint32_t trainer, std::span<const float> values) {
  std::vector<float> expected;
  for (const std::size_t row : model_.rows_of(index_, trainer)) {
    const RowValues& one = expected_rows_[row];
    expected.insert(expected.end(), one.begin(), one.end());
  }
  if (std::ranges::equal(values, expected)) return;
  fail(fmt::format("trainer {} was given rows of another step", trainer));
}

void ScaledPort::check_totals(const wire::PassFinished& totals) {
  if (totals.pushes() == pushes() && totals.job_samples() == pushes()) return;
  fail(fmt::format("the pass has {} pushes and {} samples, {} expected", totals.pushes(),
                   totals.job_samples(), pushes()));
}

void ScaledPort::check_values() {
  if (shard_->step() != (model_.has_rounds() ? batch_ : pushes())) {
    fail(fmt::format("it is at step {}", shard_->step()));
  }
  if (!is_sparse_) {
    if (!std::ranges::equal(shard_->dense()->values(), expected_)) {
      fail("its values are not the sum of all pushes");
    }
    return;
  }
  for (std::size_t row = 0; row < expected_rows_.size(); ++row) {
    const std::uint64_t id = model_.id_of(index_, row);
    RowValues values{};
    shard_->sparse(kTable)->read(std::span(&id, 1), values);
    if (values == expected_rows_[row]) continue;
    fail(fmt::format("row {} is not the sum of all pushes", row));
  }
}

}  // namespace paddle::sim
