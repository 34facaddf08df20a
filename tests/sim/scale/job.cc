#include "tests/sim/scale/job.h"

#include <malloc.h>

#include <fmt/format.h>

#include "base/pool.h"

namespace paddle::sim {
namespace {

std::uint64_t heap_bytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

std::uint64_t bytes_since(std::uint64_t before) {
  const std::uint64_t now = heap_bytes();
  return now > before ? now - before : 0;
}

}  // namespace

StepCost& StepCost::operator+=(const StepCost& other) {
  requests += other.requests;
  answers += other.answers;
  request_bytes += other.request_bytes;
  answer_bytes += other.answer_bytes;
  port_seconds += other.port_seconds;
  trainer_seconds += other.trainer_seconds;
  return *this;
}

ScaledJob::ScaledJob(const ScaleOptions& options) : options_(options), model_(options) {
  const std::uint32_t dense = model_.set().dense_shards();
  const std::uint32_t sparse = model_.set().sparse_shards();
  ports_.reserve(std::size_t{dense} + sparse);
  for (std::uint32_t i = 0; i < dense; ++i) ports_.emplace_back(model_, i, false);
  for (std::uint32_t i = 0; i < sparse; ++i) ports_.emplace_back(model_, i, true);
  std::uint64_t before = heap_bytes();
  for (ScaledPort& port : ports_) port.start();
  report_.places = bytes_since(before);
  before = heap_bytes();
  for (ScaledPort& port : ports_) port.connect();
  report_.lanes = bytes_since(before);
}

void ScaledJob::fail(std::string what) {
  if (report_.error.empty()) report_.error = std::move(what);
}

ScaleReport ScaledJob::run() {
  step("join", FrameType::kJoin, Ports::kAll);
  step("ready", FrameType::kReady, Ports::kAll);
  step("first values", FrameType::kPullDense, Ports::kDense);
  for (ScaledPort& port : ports_) port.begin_pass();
  for (std::uint32_t batch = 0; batch < options_.batches; ++batch) train(batch);
  step("end of pass", FrameType::kFinishPass, Ports::kAll);
  if (!report_.error.empty()) return std::move(report_);
  for (ScaledPort& port : ports_) port.check_values();
  step("leave", FrameType::kLeave, Ports::kAll);
  for (const ScaledPort& port : ports_) {
    fail(port.error());
    if (!port.shard().finished()) fail("a port waits though every trainer has left");
  }
  return std::move(report_);
}

void ScaledJob::on_ports(Ports kind, const std::function<void(std::size_t port)>& work) {
  const std::size_t dense = model_.set().dense_shards();
  const std::size_t first = kind == Ports::kSparse ? dense : 0;
  const std::size_t last = kind == Ports::kDense ? dense : ports_.size();
  const auto at = [&](std::size_t i) { work(first + i); };
  for_each_parallel(last - first, at, options_.threads);
}

void ScaledJob::ask(FrameType type, Ports kind, std::uint32_t begin, std::uint32_t end) {
  const std::uint64_t seed = hash_combine(options_.seed, ++asked_);
  on_ports(kind, [&](std::size_t port) {
    const ScaledPort& beside = ports_[(port + 1) % options_.pservers];  // of dense ones
    ports_[port].ask(type, begin, end, Rng(hash_combine(seed, port)), beside);
  });
}

StepCost ScaledJob::take_cost(std::string name) {
  StepCost cost{.name = std::move(name)};
  for (ScaledPort& port : ports_) cost += port.take_cost();
  return cost;
}

void ScaledJob::end_step(StepCost cost) {
  for (const ScaledPort& port : ports_) fail(port.error());
  if (cost.answers != cost.requests) {
    fail(fmt::format("{}: {} requests, {} answers", cost.name, cost.requests, cost.answers));
  }
  report_.steps.push_back(std::move(cost));
}

void ScaledJob::step(std::string name, FrameType type, Ports kind) {
  if (!report_.error.empty()) return;
  ask(type, kind, 0, options_.trainers);
  on_ports(kind, [&](std::size_t port) { ports_[port].tick(std::chrono::milliseconds(100)); });
  end_step(take_cost(std::move(name)));
}

void ScaledJob::train(std::uint32_t batch) {
  step("pull of a batch", FrameType::kPullRows, Ports::kSparse);
  if (!report_.error.empty()) return;
  std::uint32_t late = 0;
  if (model_.has_rounds() && batch == 1) late = options_.trainers > 1 ? 1 : 0;
  if (model_.has_rounds() && batch == 2) late = options_.trainers / 2;
  const std::uint32_t punctual = options_.trainers - late;
  const std::uint64_t before = heap_bytes();
  ask(FrameType::kPushRows, Ports::kAll, 0, punctual);
  if (late == 1) report_.waiting = bytes_since(before);
  StepCost cost = take_cost("push of a batch");
  if (late > 0) wait();
  ask(FrameType::kPushRows, Ports::kAll, punctual, options_.trainers);
  cost += take_cost("");
  end_step(std::move(cost));
  for (ScaledPort& port : ports_) port.end_batch();
}

void ScaledJob::wait() {
  on_ports(Ports::kAll, [&](std::size_t port) { ports_[port].tick(std::chrono::seconds(1)); });
  report_.steps.push_back(take_cost("notices"));
}

}  // namespace paddle::sim
